package redact_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/budget"
	"rubato/internal/pattern"
	"rubato/internal/redact"
)

func parse(t *testing.T, rules ...redact.Rule) *redact.Set {
	t.Helper()
	set, bad := redact.Parse(rules, &pattern.Budget{})
	require.Empty(t, bad)
	return set
}

func TestBodiesAreHiddenWhereRulesSaySo(t *testing.T) {
	t.Parallel()
	path, token := redact.Rule{JSONPath: "$..token"}, redact.Rule{Pattern: `tok_[a-z0-9]+`, Replacement: "tok_x"}
	for name, tc := range map[string]struct {
		rules []redact.Rule
		body  string
		cut   bool
		want  string
	}{
		"Nothing":            {nil, "tok_1", false, "tok_1"},
		"HeaderRuleAlone":    {[]redact.Rule{{Header: "X-A"}}, `{"token":1}`, false, `{"token":1}`},
		"Empty":              {[]redact.Rule{path, token}, "", false, ""},
		"Path":               {[]redact.Rule{path}, `{"b": {"token": "a"}, "a": [{"token": 1.50}]}`, false, `{"a":[{"token":"***"}],"b":{"token":"***"}}`},
		"PathOfNothing":      {[]redact.Rule{path}, `{"n":12345678901234567890, "h": "<&>"}`, false, `{"h":"<&>","n":12345678901234567890}`},
		"Twice":              {[]redact.Rule{path}, `{"token":"first","token":"second"}`, false, `{"token":"***"}`},
		"NoJSON":             {[]redact.Rule{path}, `token=abc`, false, "***"},
		"HalfJSON":           {[]redact.Rule{path}, `{"token":"abc`, true, "***"},
		"CutButWhole":        {[]redact.Rule{path}, `{"token":"abc"}`, true, "***"},
		"TooDeep":            {[]redact.Rule{path}, strings.Repeat("[", 65) + `"x"` + strings.Repeat("]", 65), false, "***"},
		"TooManyPlaces":      {[]redact.Rule{{JSONPath: "$..*..*..*"}}, "[" + strings.Repeat(`{"a":{"b":{"c":{"d":1}}}},`, 19_000) + "1]", false, "***"},
		"Pattern":            {[]redact.Rule{token}, "a tok_1 and tok_22", false, "a tok_x and tok_x"},
		"PatternWithMask":    {[]redact.Rule{{Pattern: "[0-9]{4,}"}}, "pin 12345 of 77", false, "pin *** of 77"},
		"ReplacementIsText":  {[]redact.Rule{{Pattern: "a(b)", Replacement: "$1"}}, "ab", false, "$1"},
		"InOrder":            {[]redact.Rule{{Pattern: "a", Replacement: "b"}, {Pattern: "b", Replacement: "c"}}, "ab", false, "cc"},
		"Binary":             {[]redact.Rule{token}, "\xff\x00tok_1\xfe", false, "\xff\x00tok_x\xfe"},
		"PatternAfterPath":   {[]redact.Rule{path, token}, `{"a":"\u0074ok_9","token":1}`, false, `{"a":"tok_x","token":"***"}`},
		"PatternBreaksJSON":  {[]redact.Rule{path, {Pattern: `"b":1`}}, `{"a":1,"b":1}`, false, "***"},
		"CutHidesItsEnd":     {[]redact.Rule{token}, strings.Repeat("x", 1000) + "tok_", true, strings.Repeat("x", 492) + "***"},
		"CutHidesAll":        {[]redact.Rule{token}, "tok_", true, "***"},
		"CutInsideCharacter": {[]redact.Rule{token}, "ab" + strings.Repeat("ü", 256) + "x", true, "ab***"},
	} {
		body := []byte(tc.body)
		got := parse(t, tc.rules...).Body(body, tc.cut, nil)
		require.Equal(t, tc.want, string(got), name)
		require.Equal(t, tc.body, string(body), "%s: what was given stays", name)
	}
}

func TestTailsAreHiddenWhereRulesSaySo(t *testing.T) {
	t.Parallel()
	token := redact.Rule{Pattern: `tok_[a-z0-9]+`}
	long := "1234" + strings.Repeat("x", 600) + " tok_1"
	require.Equal(t, "***"+strings.Repeat("x", 92)+" ***", string(parse(t, token).Tail([]byte(long), nil)))
	require.Equal(t, "***", string(parse(t, token).Tail([]byte("1234"), nil)), "it may be the end of what was to be hidden")
	require.Equal(t, "***", string(parse(t, redact.Rule{JSONPath: "$.a"}).Tail([]byte(`}`), nil)))
	require.Equal(t, "}", string(parse(t, redact.Rule{Header: "X"}).Tail([]byte(`}`), nil)))
	require.Equal(t, "}", string(parse(t).Tail([]byte(`}`), nil)))
	require.Empty(t, parse(t, token).Tail(nil, nil))
}

func TestSecretHeadersAreAlwaysMasked(t *testing.T) {
	t.Parallel()
	header := map[string][]string{
		"Set-Cookie": {"a=1", "b=2"}, "Www-Authenticate": {"Basic"}, "Proxy-Authenticate": {"Basic"}, "Authorization": {"Bearer x"},
		"X-Api-Key": {"k"}, "X-Plan": {"gold tok_1"}, "Etag": {`"1"`},
	}
	want := map[string][]string{
		"Set-Cookie": {"***", "***"}, "Www-Authenticate": {"***"}, "Proxy-Authenticate": {"***"}, "Authorization": {"***"},
		"X-Api-Key": {"***"}, "X-Plan": {"gold tok_1"}, "Etag": {`"1"`},
	}
	require.Equal(t, want, parse(t).Header(header, nil))
	want["X-Plan"], want["Etag"] = []string{"gold ***"}, []string{"***"}
	set := parse(t, redact.Rule{Header: "eTaG"}, redact.Rule{Pattern: "tok_[0-9]"})
	require.Equal(t, want, set.Header(header, nil))
	require.Equal(t, "gold ***", set.Value(header, "X-Plan", nil))
	require.Equal(t, "***", set.Value(header, "Etag", nil))
	require.Empty(t, set.Value(header, "X-Gone", nil))
	require.Equal(t, "see ***", set.Text("see tok_1", nil))
	require.Equal(t, []string{"a=1", "b=2"}, header["Set-Cookie"], "what was given stays")
}

func TestEveryBadFieldIsNamed(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		rule redact.Rule
		want []string
	}{
		{redact.Rule{}, []string{" invalid_value"}},
		{redact.Rule{Replacement: "x"}, []string{" invalid_value"}},
		{redact.Rule{Header: "A", Pattern: "b"}, []string{" invalid_value"}},
		{redact.Rule{Header: "a b"}, []string{"header header_invalid"}},
		{redact.Rule{Header: "A", Replacement: "x"}, []string{"replacement not_used"}},
		{redact.Rule{JSONPath: "a"}, []string{"jsonPath jsonpath_invalid"}},
		{redact.Rule{Pattern: "("}, []string{"pattern pattern_invalid"}},
		{redact.Rule{Pattern: "a*"}, []string{"pattern pattern_invalid"}},
		{redact.Rule{Pattern: "^"}, []string{"pattern pattern_invalid"}},
		{redact.Rule{Pattern: strings.Repeat("a", 1025)}, []string{"pattern too_long"}},
		{redact.Rule{Pattern: "(", Replacement: strings.Repeat("x", 256)}, []string{"replacement too_long", "pattern pattern_invalid"}},
	} {
		set, bad := redact.Parse([]redact.Rule{{Header: "X"}, tc.rule}, &pattern.Budget{})
		require.Nil(t, set)
		var got []string
		for _, p := range bad {
			require.Equal(t, 1, p.Index)
			require.NotEmpty(t, p.Message)
			got = append(got, p.Field+" "+p.Code)
		}
		require.Equal(t, tc.want, got, "%+v", tc.rule)
	}
}

// TestAPatternIsBoundedByItsProgram has patterns of few bytes with long programs, alone and
// together.
func TestAPatternIsBoundedByItsProgram(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"(?s)a.{0,999}b": "must have at most 200 steps when it is compiled, and has about 2000; write shorter repetitions, such as + in place of {1,255}, and fewer alternatives",
		"(?s)" + strings.Repeat("a.{0,999}", 100) + "z": "must have at most 200 steps when it is compiled, and has about 199901; write shorter",
		"a{149}": "must fit beside the other patterns of the endpoint: together they may have 300 steps, those before it leave 150, and it has 151; write shorter",
	} {
		set, bad := redact.Parse([]redact.Rule{{Pattern: "a{148}"}, {Pattern: text}}, &pattern.Budget{})
		require.Nil(t, set)
		require.Len(t, bad, 1)
		require.Equal(t, "pattern pattern_invalid", bad[0].Field+" "+bad[0].Code)
		require.Equal(t, 1, bad[0].Index)
		require.Contains(t, bad[0].Message, want)
	}
}

// TestRedactionTimeoutHidesWholeText has a pattern that looks at all of the text again
// after each match.
func TestRedactionTimeoutHidesWholeText(t *testing.T) {
	t.Parallel()
	set, long := parse(t, redact.Rule{Pattern: "(?s)tok_[0-9]+|t(?:.*never)?"}), strings.Repeat("t", 30_000)+" tok_1"
	require.Equal(t, "***", string(set.Body([]byte(long), false, nil)))
	require.Equal(t, "***", string(set.Body([]byte(long), true, nil)))
	require.Equal(t, "***", string(set.Tail([]byte(long), nil)))
	require.Equal(t, "***", set.Text(long, nil))
	require.Equal(t, map[string][]string{"X-A": {"***", "a ***"}}, set.Header(map[string][]string{"X-A": {long, "a tok_1"}}, nil))
	paths := parse(t, redact.Rule{Pattern: "(?s)t(?:.*never)?"}, redact.Rule{JSONPath: "$.a"})
	require.Equal(t, "***", string(paths.Body([]byte(`{"b":"`+strings.Repeat(`\u0074`, 30_000)+`"}`), false, nil)), "also where it only shows once JSON is rewritten")
}

// TestEqualPathsAreLookedForOnce: what 32 equal rules take is what one of them takes.
func TestEqualPathsAreLookedForOnce(t *testing.T) {
	t.Parallel()
	body := []byte(`{"list":[` + strings.Repeat(`{"token":"abcdefg"},`, 20_000) + `{}]}`)
	spent := func(n int) int {
		b := budget.New(nil)
		require.NotContains(t, string(parse(t, slices.Repeat([]redact.Rule{{JSONPath: "$..token"}}, n)...).Body(body, false, b)), "abcdefg")
		return budget.Steps - b.Remaining()
	}
	require.Equal(t, spent(1), spent(32))
}

// TestExhaustedBudgetHidesRemainder: no part of an answer is shown that a rule might have
// hidden.
func TestExhaustedBudgetHidesRemainder(t *testing.T) {
	t.Parallel()
	text := `{"a":"canary"}`
	for _, rule := range []redact.Rule{{JSONPath: "$.nothing"}, {Pattern: "nothing"}} {
		set := parse(t, rule)
		for _, b := range []*budget.Budget{budget.Ended(budget.ErrEnded), budget.Ended(budget.ErrSpent)} {
			require.Equal(t, "***", string(set.Body([]byte(text), false, b)))
			require.Equal(t, "***", string(set.Tail([]byte(text), b)))
			if rule.Pattern != "" {
				require.Equal(t, "***", set.Text(text, b))
				require.Equal(t, map[string][]string{"X-A": {"***"}}, set.Header(map[string][]string{"X-A": {text}}, b))
			}
		}
	}
	hostile := []byte("[" + strings.Repeat(`"abcdefg",`, 95_000) + `"a"]`)
	var rules []redact.Rule
	for i := range 31 {
		rules = append(rules, redact.Rule{JSONPath: "$[" + strings.Repeat("::1,", 3) + "::" + strconv.Itoa(i+2) + "]"})
	}
	require.Equal(t, "***", string(parse(t, rules...).Body(hostile, false, budget.New(nil))))
}

// TestReplacementsDoNotBlowABodyUp has a pattern that finds every byte and puts much in its place.
func TestReplacementsDoNotBlowABodyUp(t *testing.T) {
	t.Parallel()
	set := parse(t, redact.Rule{Pattern: "x", Replacement: strings.Repeat("y", 255)}, redact.Rule{Pattern: "y", Replacement: strings.Repeat("z", 255)})
	body := bytes.Repeat([]byte("x"), 1<<16) // Every byte is a match, and each takes the race detector long.
	got := set.Body(body, false, nil)
	require.LessOrEqual(t, len(got), 2*len(body)+255)
	require.NotContains(t, string(got), "x", "what does not fit is left out, not left")
	require.NotContains(t, string(got), "y")
}

// FuzzSecretsAreHidden puts a secret where a rule points to, into whatever surrounds it.
func FuzzSecretsAreHidden(f *testing.F) {
	f.Add("a", "b", []byte(`,"x":1}`))
	f.Add(`\"`, "\x00", []byte(`}`))
	set, bad := redact.Parse([]redact.Rule{{JSONPath: "$.secret"}, {Pattern: "canary-[0-9]+"}}, &pattern.Budget{})
	if bad != nil {
		f.Fatal(bad)
	}
	f.Fuzz(func(t *testing.T, name, value string, rest []byte) {
		doc, err := json.Marshal(map[string]any{name: value, "secret": "hidden-" + value, "note": "see canary-1234 here"})
		if err != nil {
			return
		}
		for _, body := range [][]byte{doc, append(bytes.Clone(doc[:len(doc)-1]), rest...), append([]byte(value), doc...)} {
			for _, cut := range []bool{false, true} {
				got := set.Body(body, cut, nil)
				if name != "secret" && bytes.Contains(got, []byte("hidden-")) && !strings.Contains(name+value+string(rest), "hidden-") {
					t.Fatalf("%q became %q", body, got)
				}
				if bytes.Contains(got, []byte("canary-1")) {
					t.Fatalf("%q became %q", body, got)
				}
			}
		}
	})
}
