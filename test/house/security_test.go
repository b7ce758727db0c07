package house

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// leastAttacks is the minimum number of attacks on the security page.
const leastAttacks = 80

// TestEveryAttackIsTested checks that the attacks on the security page are numbered without a gap,
// and that each names existing tests.
func TestEveryAttackIsTested(t *testing.T) {
	t.Parallel()
	tests, rows := testNames(t), 0
	for line := range strings.Lines(string(textFiles(t)["docs/security.md"])) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
		number, err := strconv.Atoi(cells[0])
		if !strings.HasPrefix(line, "| ") || err != nil {
			continue
		}
		rows++
		require.Equal(t, rows, number, line)
		require.Len(t, cells, 4, line)
		found := proofs.FindAllStringSubmatch(cells[3], -1)
		require.NotEmpty(t, found, "no test shows the answer to: %s", cells[1])
		for _, folder := range found {
			for _, quote := range quoted.FindAllStringSubmatch(folder[2], -1) {
				require.True(t, slices.Contains(tests[folder[1]], quote[1]), "%s: there is no test %s in %s", cells[1], quote[1], folder[1])
			}
		}
	}
	require.GreaterOrEqual(t, rows, leastAttacks)
}
