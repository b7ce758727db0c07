package house

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// proofs matches the last cell of a row of the guarantees: folders, each with its tests.
var proofs = regexp.MustCompile("`([a-z0-9/_-]+)`: ((?:`[A-Za-z0-9_]+`(?:, )?)+)")

// TestEveryGuaranteeIsTested checks that each line of the tables of guarantees names tests, and
// that all of them exist.
func TestEveryGuaranteeIsTested(t *testing.T) {
	t.Parallel()
	tests, rows := testNames(t), 0
	for line := range strings.Lines(string(textFiles(t)["docs/guarantees.md"])) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		last := strings.TrimSpace(cells[len(cells)-1])
		if !strings.HasPrefix(line, "| ") || last == "tests" || strings.HasPrefix(line, "| --- ") {
			continue
		}
		rows++
		found := proofs.FindAllStringSubmatch(last, -1)
		if len(found) == 0 {
			t.Errorf("no test holds up: %s", cells[0])
		}
		for _, folder := range found {
			for _, quote := range quoted.FindAllStringSubmatch(folder[2], -1) {
				if !slices.Contains(tests[folder[1]], quote[1]) {
					t.Errorf("%s: there is no test %s in %s", cells[0], quote[1], folder[1])
				}
			}
		}
	}
	require.Greater(t, rows, 30, "the tables are gone, or are not read any more")
}
