package house

import (
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSimulationMutantsApply checks that every mutant still applies, because a mutant of old
// code tests nothing.
func TestSimulationMutantsApply(t *testing.T) {
	t.Parallel()
	files, bugs := textFiles(t), 0
	for name, text := range files {
		if path.Dir(name) != "test/sim/mutants" {
			continue
		}
		bugs++
		for _, file := range regexp.MustCompile(`(?m)^--- a/`).Split(string(text), -1)[1:] {
			target, _, _ := strings.Cut(file, "\n")
			for _, hunk := range regexp.MustCompile(`(?m)^@@.*\n`).Split(file, -1)[1:] {
				require.True(t, strings.Contains(string(files[target]), replaced(hunk)), "%s no longer applies to %s: take the change over into what is there now", name, target)
			}
		}
	}
	require.Positive(t, bugs)
}

// replaced returns the lines that a hunk of a patch must find.
func replaced(hunk string) string {
	var b strings.Builder
	for line := range strings.Lines(hunk) {
		if !strings.HasPrefix(line, "+") {
			b.WriteString(line[min(1, len(line)):])
		}
	}
	return b.String()
}
