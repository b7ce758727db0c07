package runs_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/runs"
)

// TestEveryReasonIsDocumented compares the table of reasons in docs/errors.md with the reasons, and
// its last column with the code.
func TestEveryReasonIsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/errors.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "\n## Reasons of runs\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	documented := map[runs.Reason]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| ([a-z_, ]+) \\| `([a-z_]+)` \\| .* \\| ?(.*?) ?\\|$").FindAllStringSubmatch(section, -1) {
		reason := runs.Reason(row[2])
		require.NotContains(t, documented, reason)
		documented[reason] = row[3]
		for status := range strings.SplitSeq(row[1], ", ") {
			require.Contains(t, runs.Statuses(), runs.Status(status))
		}
		if reason != runs.HTTPStatus { // The status column states it already.
			require.Equal(t, row[3] == "yes", runs.Outcome{Status: runs.Failed, Reason: reason}.Retryable(), reason)
		}
	}
	want := slices.Sorted(slices.Values(runs.Reasons()))
	require.Equal(t, want, slices.Sorted(maps.Keys(documented)))
}
