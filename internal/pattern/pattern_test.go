package pattern_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"rubato/internal/pattern"
)

// TestUsualPatternsCompile has typical patterns of rules with their cost.
func TestUsualPatternsCompile(t *testing.T) {
	t.Parallel()
	for text, steps := range map[string]int{
		`done$`: 7,
		`[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}`:                          11,
		`[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`: 38,
		`\b(?:\d[ -]*?){13,16}\b`:                                                 55,
		`\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b`:                                  27,
		`\p{L}+\s\p{Lu}\p{Ll}*`:                                                   14,
		`eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}`:           40,
		`"password"\s*:\s*"(?:[^"\\]|\\.)*"`:                                      24,
		`sk_(live|test)_[0-9a-zA-Z]{24,99}`:                                       191,
		`(?i)[À-ſ]+`:                                                              14,
		`(?i)\b(alpha|bravo|charlie|delta|echo|foxtrot|golf|hotel|india|juliett|kilo|lima|mike|november|oscar|papa|quebec|romeo|sierra|tango)\b`: 130,
		`\b(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|3[47][0-9]{13}|6(?:011|5[0-9]{2})[0-9]{12})\b`:                                             75,
	} {
		p, err := (&pattern.Budget{}).Compile(text)
		require.NoError(t, err, text)
		require.Equal(t, steps, p.Steps(), text)
	}
}

// TestAPatternIsRefusedAboveItsLimits has patterns at each limit and right above it.
func TestAPatternIsRefusedAboveItsLimits(t *testing.T) {
	t.Parallel()
	const advice = "; write shorter repetitions, such as + in place of {1,255}, and fewer alternatives"
	for _, tc := range []struct{ text, want string }{
		{"a{198}", ""},
		{"a{199}", "must have at most 200 steps when it is compiled, and has about 201" + advice},
		{strings.Repeat("a", 198), ""},
		{"(?s)" + strings.Repeat("a.{0,999}", 100) + "z", "must have at most 200 steps when it is compiled, and has about 199901" + advice},
		{"(?:(?:a{0,99}){0,9}){0,1}", "must have at most 200 steps when it is compiled, and has about 1792" + advice},
		{"a{600,}", "must have at most 200 steps when it is compiled, and has about 603" + advice},
		{`\pL{98}`, ""},
		{`\pL{99}`, "must have at most 200 steps when it is compiled, and has about 201" + advice},
		{"[" + strings.Repeat(`\pL`, 196) + "]", ""},
		{"[" + strings.Repeat(`\PL`, 197) + "]", "must have at most 200 steps when it is compiled, and has about 201" + advice},
		{"[" + strings.Repeat(`\PL`, 340) + "]", "must have at most 200 steps when it is compiled, and has about 340" + advice},
		{"(?i)[" + strings.Repeat(`B-\x{1e942}`, 21) + "]", "must have at most 200 steps when it is compiled, and has about 210" + advice},
		{"(?s-i:[" + strings.Repeat(`B-\x{1e942}`, 21) + "])", ""},
		{strings.Repeat("(?:a)*", 170), "must have at most 200 steps when it is compiled, and has about 342" + advice},
		{"[" + strings.Repeat("a", 1022) + "]", ""},
		{"[" + strings.Repeat("a", 1023) + "]", "must be at most 1024 bytes long"},
		{"(a", "must be a regular expression (RE2): missing closing ): `(a`"},
		{"a{1001}", "must be a regular expression (RE2): invalid repeat count: `{1001}`"},
	} {
		p, err := (&pattern.Budget{}).Compile(tc.text)
		if tc.want == "" {
			require.NoError(t, err, tc.text)
			require.LessOrEqual(t, p.Steps(), pattern.MaxSteps)
			continue
		}
		require.EqualError(t, err, tc.want)
		require.Nil(t, p)
	}
}

// TestPatternsShareABudget fills the budget and adds one pattern. A refused pattern takes nothing
// from it.
func TestPatternsShareABudget(t *testing.T) {
	t.Parallel()
	var b pattern.Budget
	for _, fits := range []string{"a{148}", "a{140}"} {
		_, err := b.Compile(fits)
		require.NoError(t, err)
	}
	_, err := b.Compile("a{7}")
	require.EqualError(t, err, "must fit beside the other patterns of the endpoint: together they may have 300 steps, those before it leave 8, and it has 9; "+
		"write shorter repetitions, such as + in place of {1,255}, and fewer alternatives")
	_, err = b.Compile("(")
	require.Error(t, err)
	_, err = b.Compile("a{6}")
	require.NoError(t, err)
	_, err = b.Compile("a")
	require.ErrorContains(t, err, "leave 0")
}

// TestReplacingIsBounded has patterns that look at all that follows a match before they know its
// end: without a bound they take time by the square of the text.
func TestReplacingIsBounded(t *testing.T) {
	t.Parallel()
	mask := func([]byte) []byte { return []byte("*") }
	long := []byte(strings.Repeat("a", 20_000))
	for _, text := range []string{"(?s).*b|a", "a(?:.*b)?", "(?s)(?:.*b.{90}|a)"} {
		p, err := (&pattern.Budget{}).Compile(text)
		require.NoError(t, err)
		out, ok := p.Replace(long, nil, mask)
		require.False(t, ok, text)
		require.Nil(t, out)
	}
	for _, text := range []string{"a", "a?b?", "[ab]{2}", "(?s)a.{0,98}b", "(?:(?:(?:a?b?c?)*)*d?){18}!", `(?:\b|\B|a){38}b`, "(?s)(a?){48}b", "a*"} {
		p, err := (&pattern.Budget{}).Compile(text)
		require.NoError(t, err)
		_, ok := p.Replace(long, nil, mask)
		require.True(t, ok, "%s: one search through all of the text is always possible", text)
	}
}

// expressions returns arbitrary patterns of the permitted language, with the constructs that are
// easy to get wrong.
func expressions() *rapid.Generator[string] {
	atom := rapid.SampledFrom([]string{
		"a", "b", ".", "^", "$", `\b`, `\B`, "[ab]", "[^a]", `\s`, "ü", `\pL`, "(?i:K)", "(?m:^)", "(?m:$)", `\z`, `\A`, "(?s:.)", "x", "ab", "(?:a|b|)", "aü",
	})
	return rapid.Custom(func(t *rapid.T) string {
		parts := rapid.SliceOfN(atom, 1, 4).Draw(t, "atoms")
		for i := range parts {
			if rapid.Bool().Draw(t, "group") {
				parts[i] = "(" + parts[i] + ")"
			}
			parts[i] += rapid.SampledFrom([]string{"", "", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,3}"}).Draw(t, "times")
		}
		joined := strings.Join(parts, rapid.SampledFrom([]string{"", "", "|"}).Draw(t, "join"))
		if rapid.Bool().Draw(t, "again") {
			joined = "(?:" + joined + ")" + rapid.SampledFrom([]string{"", "*", "+?", "|b"}).Draw(t, "again")
		}
		return joined
	})
}

// TestReplacementsMatchPackageRegexp compares with package regexp.
func TestReplacementsMatchPackageRegexp(t *testing.T) {
	t.Parallel()
	pieces := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ü", "\n", " ", "k", "\u212a", "\xff", "x", "aab"}), 0, 12)
	rapid.Check(t, func(t *rapid.T) {
		source, text := expressions().Draw(t, "pattern"), strings.Join(pieces.Draw(t, "text"), "")
		re := regexp.MustCompile(source)
		p, err := (&pattern.Budget{}).Compile(source)
		require.NoError(t, err)
		mark := func(found []byte) []byte { return []byte("<" + string(found) + ">") }
		got, ok := p.Replace([]byte(text), nil, mark)
		require.True(t, ok)
		require.Equal(t, string(re.ReplaceAllFunc([]byte(text), mark)), string(got))
		require.Equal(t, re.MatchString(text), p.MatchString(text, nil))
	})
}
