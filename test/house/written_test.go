package house

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// part is the part of a document between two marker lines.
type part struct {
	path       string // relative to the module
	begin, end string // the markers, without indentation
}

// requireWritten requires that the part of a document equals a text. With -update it writes the
// text instead.
func requireWritten(t *testing.T, p part, text string) {
	t.Helper()
	path := filepath.Join(root, filepath.FromSlash(p.path))
	raw, err := os.ReadFile(path)
	require.NoError(t, err)

	head, rest, found := strings.Cut(string(raw), p.begin+"\n")
	require.True(t, found, "%s has no line %q", p.path, p.begin)
	old, tail, found := strings.Cut(rest, p.end)
	require.True(t, found, "%s has no line %q", p.path, p.end)
	indent := old[strings.LastIndex(old, "\n")+1:]
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(head+p.begin+"\n"+text+indent+p.end+tail), 0o600))
		return
	}
	require.Equal(t, text+indent, old, "%s is not up to date: go test ./test/house -update", p.path)
}
