package secrets

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestPrefixSearchAgreesWithBruteForce compares with a search that tries every length, on
// repetitive texts.
func TestPrefixSearchAgreesWithBruteForce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		value := []byte(rapid.StringMatching(`[ab"]{9,30}`).Draw(t, "value"))
		text := []byte(rapid.StringMatching(`[ab"]{0,60}`).Draw(t, "text"))
		if rapid.Bool().Draw(t, "near") {
			text = slices.Concat(text, value[:rapid.IntRange(0, len(value)).Draw(t, "kept")], []byte(rapid.StringMatching(`("[ab])?`).Draw(t, "after")))
		}
		quotes := rapid.Bool().Draw(t, "quotes")

		var want []span
		for at := range len(text) + 1 {
			if at < len(text) && (!quotes || text[at] != '"') {
				continue
			}
			for n := min(len(value)-1, at); n >= minMasked; n-- {
				if bytes.Equal(text[at-n:at], value[:n]) {
					want = append(want, spanOf(at-n, at))
					break
				}
			}
		}
		require.Equal(t, want, begins(value, text, quotes))

		longest := 0
		for n := minMasked; n <= min(len(value)-1, len(text)); n++ {
			if bytes.HasPrefix(text, value[len(value)-n:]) {
				longest = n
			}
		}
		require.Equal(t, longest, ending(value, text))
	})
}
