package secrets

import (
	"encoding/base64"
	"fmt"
	"html"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// writers are encodings of one character by targets and intermediaries.
func writers() []func(r rune) string {
	return []func(r rune) string{
		func(r rune) string { return plainJSON(string(r)) },
		func(r rune) string { return strings.ReplaceAll(plainJSON(string(r)), "/", `\/`) },
		func(r rune) string {
			if strings.ContainsRune(`\"'/&+=% `, r) || r > 127 || r < 32 {
				return fmt.Sprintf(strings.Repeat(`\u%04x`, len(utf16.Encode([]rune{r}))), anyOf(utf16.Encode([]rune{r}))...)
			}
			return string(r)
		},
		func(r rune) string { return url.QueryEscape(string(r)) },
		func(r rune) string { return strings.ToLower(url.PathEscape(string(r))) },
		func(r rune) string { return html.EscapeString(string(r)) },
		func(r rune) string { return strings.ReplaceAll(html.EscapeString(string(r)), "/", "&#x2F;") },
	}
}

func anyOf(list []uint16) (out []any) {
	for _, n := range list {
		out = append(out, n)
	}
	return out
}

// written applies writers to a text, one after the other.
func written(text string, by []int) string {
	for _, i := range by {
		var out strings.Builder
		for _, r := range text {
			write := writers()[i]
			if s := write(r); r < 128 && 'A' <= r && r <= 'Z' {
				out.WriteRune(r)
			} else {
				out.WriteString(s)
			}
		}
		text = out.String()
	}
	return text
}

// TestNoPartOfAnEscapedValueIsLeft has values escaped up to three times, in any mix of
// ways, and cut anywhere.
func TestNoPartOfAnEscapedValueIsLeft(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching(`[a-z][a-z0-9/="'&<>é😀+\n]{12,40} [x-z]`).Draw(t, "value")
		by := rapid.SliceOfN(rapid.IntRange(0, len(writers())-1), 0, levels).Draw(t, "writers")
		echo := written(value, by)
		mask := NewMask(value)
		require.Equal(t, "A [secret] B", string(mask.Body([]byte("A "+echo+" B"), false)), echo)
		require.Equal(t, "A [secret] B", mask.Text("A "+echo+" B"), echo)

		at := rapid.IntRange(0, len(echo)).Draw(t, "cut")
		runes := []rune(value)
		kept := 0 // characters of the value that are present in full
		for kept < len(runes) && len(written(string(runes[:kept+1]), by)) <= at {
			kept++
		}
		if len(string(runes[:kept])) >= minMasked {
			require.Equal(t, "A [secret]", string(mask.Body([]byte("A "+echo[:at]), true)), echo[:at])
			require.Equal(t, "A [secret]", mask.Text("A "+echo[:at]), echo[:at])
		}
		gone := 0
		for gone < len(runes) && len(written(string(runes[:gone]), by)) < at {
			gone++
		}
		if at > 0 && len(string(runes[gone:])) >= minMasked {
			require.Equal(t, "[secret] B", string(mask.Tail([]byte(echo[at:]+" B"))), echo[at:])
		}
	})
}

// TestValuesWithEscapeSequencesAreMasked: a value is masked although it contains escape sequences
// itself, which read the same as escapes that a target adds.
func TestValuesWithEscapeSequencesAreMasked(t *testing.T) {
	t.Parallel()
	for _, value := range []string{
		`{"key": "-----BEGIN-----\nMIIE\n", "url": "https://a/b%40c"}`, `a%2Fb%2Fc%2Fd\/e&amp;f`, `C:\new\table\u0041`, `%41%42%43 \\\\ &lt;/`,
	} {
		mask := NewMask(value)
		for i := range writers() {
			for k := range writers() {
				echo := written(written(value, []int{i}), []int{k})
				require.Equal(t, `x "[secret]" y`, string(mask.Body([]byte(`x "`+echo+`" y`), false)), echo)
			}
		}
	}
}

// TestLongValuesCostLittle bounds the work for a value of 64 KiB. Comparing the end of a text with
// each of the value's prefixes would be quadratic.
func TestLongValuesCostLittle(t *testing.T) { //nolint:paralleltest // It counts the allocations of the whole process.
	mask := NewMask(long())
	for name, text := range map[string]string{
		"Echo":     "text/" + long()[:minMasked] + "+x",
		"End":      "a text that holds " + long()[:minMasked+2],
		"Quoted":   `found "` + long()[:40] + `" and more`,
		"Escaped":  `found "\/` + long()[:40],
		"Repeated": strings.Repeat(long()[:minMasked]+`"`, 20),
	} {
		require.Less(t, testing.AllocsPerRun(10, func() { mask.Text(text) }), 200.0, name)
		require.NotContains(t, mask.Text(text+`"`), long()[:minMasked+2], name)
	}
}

// long returns a value of the greatest permitted length. All its encoded forms have the same
// prefix.
func long() string { return strings.Repeat("abcdefghijklmnopqrstuvwxyz/0123456789", 64<<10/37) }

func BenchmarkMaskOfALongValue(b *testing.B) {
	mask := NewMask(long())
	b.Run("Made", func(b *testing.B) {
		for b.Loop() {
			NewMask(long())
		}
	})
	for name, text := range map[string]string{
		"Short":    "text/" + long()[:minMasked] + "+x",
		"Quotes":   strings.Repeat(long()[:minMasked]+`"`, 1<<10),
		"Escaped":  strings.Repeat(`{\"a\/b\":\"`+long()[:100]+`\"}`, 1<<10),
		"Repeated": strings.Repeat("a", 100<<10),
		"Base64":   base64.StdEncoding.EncodeToString([]byte(long())),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				mask.Text(text)
			}
		})
	}
}

// TestMaskSearchesABoundedNumberOfEscapeLevels: the mask searches a fixed number of levels of
// escaping, so that a target cannot choose the amount of work.
func TestMaskSearchesABoundedNumberOfEscapeLevels(t *testing.T) {
	t.Parallel()
	mask := NewMask("a/b/c/d/e/f/g")
	for n := 1; n <= levels+2; n++ {
		echo := written("a/b/c/d/e/f/g", append([]int{4}, slices.Repeat([]int{3}, n-1)...))
		require.Equal(t, n <= levels, mask.Text(echo) == masked, echo)
	}
}
