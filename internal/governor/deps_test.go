package governor_test

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// allowed lists every package that this one may import, with a reason. None reads a clock, draws a
// random number, or reaches outside the process.
var allowed = map[string]string{
	"encoding/binary": "reads the endpoint ID for the jitter's hash",
	"strconv":         "words of the trace",
	"strings":         "words of the trace",
	"time":            "instants and durations, never the clock",
	"unicode/utf8":    "words of the trace",
}

// clockUses are the parts of package time that depend on more than their arguments.
var clockUses = []string{"time.Now", "time.Since", "time.Until", "time.Sleep", "time.After(", "time.NewT", "time.Tick", "time.Local", "time.LoadLocation"}

// TestImportsOnlyTheStandardLibrary keeps the package pure: a decision on record is worth something
// only if it can be replayed, so what decides may depend on nothing but its input.
func TestImportsOnlyTheStandardLibrary(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	checked := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		checked++
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, spec := range file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			require.Contains(t, allowed, path,
				"%s imports %q: the governor is a pure function of its input, so that decisions can be replayed", name, path)
		}
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, use := range clockUses {
			require.NotContains(t, string(text), use, "%s reads the clock or the zone of the process", name)
		}
	}
	require.Positive(t, checked, "the package has files")
}
