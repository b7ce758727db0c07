package success_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/budget"
	"rubato/internal/pattern"
	"rubato/internal/success"
)

func answer(body string) *success.Answer {
	return &success.Answer{
		Status: 200, Body: []byte(body), Latency: 120 * time.Millisecond,
		Header: map[string][]string{"Content-Type": {"application/json"}, "X-Many": {"a", "b"}, "X-Depth": {" 12.5 "}, "X-Long": {"10000000000000000001"}},
	}
}

const body = `{"status":"ok","count":3,"ratio":2.50,"done":true,"none":null,"items":[{"s":"a","n":1},{"s":"b","n":2}],"big":9007199254740993,` +
	`"huge":10000000000000000001,"fine":0.1000000000000000000001,"far":1e400}`

func header(name string, op success.Op, value any) success.Rule {
	return success.Rule{Type: success.Header, Header: name, Op: op, Value: value}
}

func at(path string, op success.Op, value any) success.Rule {
	return success.Rule{Type: success.JSON, JSONPath: path, Op: op, Value: value}
}

func text(op success.Op, value any) success.Rule {
	return success.Rule{Type: success.Body, Op: op, Value: value}
}

func cel(expression string) success.Rule {
	return success.Rule{Type: success.CEL, Expression: expression}
}

// TestRulesJudge has every kind of rule and comparison over one answer. says is the verdict where
// the rule is broken.
func TestRulesJudge(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		rule success.Rule
		says string // empty: it holds
	}{
		{header("content-type", success.Exists, nil), ""},
		{header("Content-Type", "", nil), ""},
		{header("Content-Type", "", "application/json"), ""},
		{header("Content-Type", success.Matches, "^application/"), ""},
		{header("Content-Type", success.Matches, "xml"), `(header Content-Type matches "xml"): found "application/json"`},
		{header("Content-Type", success.Less, 3), `found "application/json"`},
		{header("X-Many", success.Equals, "a, b"), ""},
		{header("X-Depth", success.Less, 13), ""},
		{header("X-Depth", success.GreaterOrEqual, 12.5), ""},
		{header("X-Depth", success.Equals, 12.5), ""},
		{header("X-Gone", success.Exists, nil), "(header X-Gone exists): there is no such header"},
		{header("X-Gone", success.NotEquals, "x"), "there is no such header"},
		{text(success.Matches, `"status":"ok"`), ""},
		{text(success.NotEquals, "x"), ""},
		{text(success.Equals, "x"), `(body equals "x"): found "{\"status\"`},
		{text(success.Exists, nil), ""},
		{at("$.status", "", "ok"), ""},
		{at("$.status", success.NotEquals, "ok"), `(json $.status does not equal "ok"): found "ok"`},
		{at("$.status", success.Matches, "^(ok|fine)$"), ""},
		{at("$.status", success.Greater, 1), `found "ok"`},
		{at("$.count", success.Equals, 3), ""},
		{at("$.count", success.Equals, json.Number("3.0")), ""},
		{at("$.count", success.Equals, "3"), "found 3"},
		{at("$.count", success.Less, 3), "(json $.count is less than 3): found 3"},
		{at("$.count", success.LessOrEqual, 3), ""},
		{at("$.count", success.Greater, 2.5), ""},
		{at("$.ratio", success.Equals, 2.5), ""},
		{at("$.big", success.Equals, int64(9007199254740993)), ""},
		{at("$.big", success.Equals, int64(9007199254740992)), "found 9007199254740993"},
		{at("$.big", success.Equals, float64(9007199254740992)), "found 9007199254740993"},
		{at("$.big", success.Greater, float64(9007199254740992)), ""},
		{at("$.huge", success.Equals, 1e19), "found 10000000000000000001"},
		{at("$.huge", success.NotEquals, 1e19), ""},
		{at("$.huge", success.Equals, json.Number("10000000000000000001")), ""},
		{at("$.fine", success.Equals, 0.1), "found 0.1000000000000000000001"},
		{at("$.fine", success.LessOrEqual, 0.1), "found 0.1000000000000000000001"},
		{at("$.far", success.Greater, 1.7e308), ""},
		{header("X-Long", success.Equals, 1e19), `found "10000000000000000001"`},
		{header("X-Long", success.Equals, json.Number("10000000000000000001")), ""},
		{at("$.done", success.Equals, true), ""},
		{at("$.done", success.Equals, false), "(json $.done equals false): found true"},
		{at("$.none", success.Equals, nil), ""},
		{at("$.none", success.NotEquals, "x"), ""},
		{at("$.status", success.Equals, nil), `found "ok"`},
		{at("$.items", success.Equals, "x"), "found an array of 2 elements"},
		{at("$.items[0]", success.Equals, "x"), "found an object of 2 members"},
		{at("$.items[*].n", success.GreaterOrEqual, 1), ""},
		{at("$.items[*].n", success.GreaterOrEqual, 2), "found 1"},
		{at("$.items[?@.s == 'b']", success.Exists, nil), ""},
		{at("$.items[?@.s == 'c']", success.Exists, nil), "there is nothing at that place"},
		{at("$.gone", success.NotEquals, "x"), "there is nothing at that place"},
		{cel(`status == 200 && json.items.size() == 2 && latencyMs < 500`), ""},
		{cel(`headers["content-type"].startsWith("application/") && json.count > 2.5 && json.big == 9007199254740993`), ""},
		{cel(`body.contains("ok") && body.matches("o+k")`), ""},
		{cel(`json.status == "bad"`), `(cel "json.status == \"bad\""): it is false`},
		{cel(`json.gone == 1`), "it cannot be evaluated: \"no such key: gone\""},
		{cel(`json.count`), "neither true nor false but of type int"},
		{success.Rule{Type: success.Latency, MaxLatencyMs: 120}, ""},
		{success.Rule{Type: success.Latency, MaxLatencyMs: 119}, "(latency is at most 119 ms): it took 120.0 ms"},
	} {
		set, bad := success.Parse([]success.Rule{tc.rule}, &pattern.Budget{})
		require.Empty(t, bad, "%+v", tc.rule)
		a := answer(body)
		if tc.says == "" {
			require.Equal(t, -1, set.Judge(a), "%+v", tc.rule)
			continue
		}
		require.Equal(t, 0, set.Judge(a), "%+v", tc.rule)
		require.Contains(t, set.Explain(0, a), tc.says)
	}
}

func TestTheFirstRuleThatIsBrokenIsNamed(t *testing.T) {
	t.Parallel()
	set, bad := success.Parse([]success.Rule{text(success.Exists, nil), at("$.a", "", 1), at("$.b", "", 1), {Type: success.Latency, MaxLatencyMs: 1}}, &pattern.Budget{})
	require.Empty(t, bad)
	a := answer(`{"a":1,"b":2}`)
	require.Equal(t, 2, set.Judge(a))
	require.Equal(t, "successRules[2] does not hold (json $.b equals 1): found 2", set.Explain(2, a))
	require.Equal(t, 3, set.JudgeUnchanged(a), "of an answer that says that nothing changed only the time counts")
	require.Equal(t, []int{0, 1, 2}, set.LookAtBody())
	a.Latency = time.Millisecond
	require.Equal(t, -1, set.JudgeUnchanged(a))
}

func TestNoRulesHoldAlways(t *testing.T) {
	t.Parallel()
	set, bad := success.Parse(nil, &pattern.Budget{})
	require.Empty(t, bad)
	require.Nil(t, set)
	require.Equal(t, -1, set.Judge(answer("")))
	require.Equal(t, -1, set.JudgeUnchanged(answer("")))
	require.Empty(t, set.LookAtBody())
}

// TestUnjudgeableBodyFailsTheRunWithAReason has bodies that are no JSON, cut, or empty.
func TestUnjudgeableBodyFailsTheRunWithAReason(t *testing.T) {
	t.Parallel()
	cut := answer("OK and more")
	cut.Truncated = true
	for _, tc := range []struct {
		rule success.Rule
		a    *success.Answer
		says string
	}{
		{at("$.a", "", 1), answer("<html>"), "the body cannot be read as JSON: it is no JSON at byte 1"},
		{at("$.a", "", 1), answer(""), "the body cannot be read as JSON: it is empty"},
		{at("$.a", "", 1), cut, "longer than what is read of it"},
		{cel("json.a == 1"), answer("<html>"), "the body cannot be read as JSON"},
		{cel("json.a == 1"), cut, "longer than what is read of it"},
		{cel("body == 'x'"), cut, "longer than what is read of it"},
		{text(success.Exists, nil), answer(""), "there is no body"},
		{text(success.Equals, "OK"), cut, "longer than what is read of it"},
		{text(success.Matches, "zzz"), cut, "nothing in the part of the body that is read"},
	} {
		set, bad := success.Parse([]success.Rule{tc.rule}, &pattern.Budget{})
		require.Empty(t, bad)
		require.Equal(t, 0, set.Judge(tc.a), "%+v", tc.rule)
		require.Contains(t, set.Explain(0, tc.a), tc.says, "%+v", tc.rule)
	}
	for _, rule := range []success.Rule{text(success.Matches, "^OK"), text(success.Exists, nil), cel("status == 200")} {
		set, bad := success.Parse([]success.Rule{rule}, &pattern.Budget{})
		require.Empty(t, bad)
		require.Equal(t, -1, set.Judge(cut), "%+v", rule)
	}
}

// TestEveryBadFieldIsNamed has each way to write a rule that makes no sense.
func TestEveryBadFieldIsNamed(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		rule success.Rule
		want []string
	}{
		{success.Rule{}, []string{"type invalid_value"}},
		{success.Rule{Type: "regexp"}, []string{"type invalid_value"}},
		{header("", "", nil), []string{"header required"}},
		{header("a b", "", nil), []string{"header header_invalid"}},
		{header("a\n", "", nil), []string{"header header_invalid"}},
		{header("X", "like", "x"), []string{"op invalid_value"}},
		{header("X", success.Exists, "x"), []string{"value not_used"}},
		{header("X", success.Equals, true), []string{"value invalid_value"}},
		{header("X", success.Equals, nil), []string{"value invalid_value"}},
		{header("X", success.Matches, "("), []string{"value invalid_value"}},
		{header("X", success.Matches, strings.Repeat("a", 1025)), []string{"value invalid_value"}},
		{header("X", success.Matches, 3), []string{"value invalid_value"}},
		{header("X", success.Less, "3"), []string{"value invalid_value"}},
		{text(success.Equals, []any{1}), []string{"value invalid_value"}},
		{text(success.Equals, strings.Repeat("a", 1025)), []string{"value too_long"}},
		{at("", success.Equals, 1), []string{"jsonPath required"}},
		{at("status", success.Less, "x"), []string{"value invalid_value", "jsonPath jsonpath_invalid"}},
		{cel(""), []string{"expression required"}},
		{cel(strings.Repeat(" ", 4096) + "true"), []string{"expression too_long"}},
		{cel("status =="), []string{"expression cel_invalid"}},
		{cel("status"), []string{"expression cel_invalid"}},
		{cel("nothing == 1"), []string{"expression cel_invalid"}},
		{cel("status == 'a'"), []string{"expression cel_invalid"}},
		{cel("body.matches('(')"), []string{"expression cel_invalid"}},
		{cel("body.matches(json.pattern)"), []string{"expression cel_invalid"}},
		{cel("[1].all(x, body.matches(string(x)))"), []string{"expression cel_invalid"}},
		{success.Rule{Type: success.Latency}, []string{"maxLatencyMs out_of_range"}},
		{success.Rule{Type: success.Latency, MaxLatencyMs: 1_800_001}, []string{"maxLatencyMs out_of_range"}},
		{success.Rule{Type: success.Latency, MaxLatencyMs: 1 << 62}, []string{"maxLatencyMs out_of_range"}},
		{success.Rule{Type: success.Latency, MaxLatencyMs: 5, Header: "X", JSONPath: "$", Op: "less", Value: 1, Expression: "true"}, []string{
			"header not_used", "jsonPath not_used", "op not_used", "value not_used", "expression not_used",
		}},
		{success.Rule{Type: success.CEL, Expression: "true", MaxLatencyMs: 3}, []string{"maxLatencyMs not_used"}},
	} {
		set, bad := success.Parse([]success.Rule{text("", nil), tc.rule}, &pattern.Budget{})
		require.Nil(t, set)
		var got []string
		for _, p := range bad {
			require.Equal(t, 1, p.Index)
			require.NotEmpty(t, p.Message)
			require.NotContains(t, p.Message, "\n")
			got = append(got, p.Field+" "+p.Code)
		}
		require.Equal(t, tc.want, got, "%+v", tc.rule)
	}
}

// TestAJudgementIsBounded has rules and answers that would take for ever without bounds.
func TestAJudgementIsBounded(t *testing.T) {
	t.Parallel()
	long := `{"big":"` + strings.Repeat("a", 700_000) + `","items":[` + strings.Repeat("1,", 60_000) + `1]}`
	for _, rule := range []success.Rule{
		cel(`json.items.all(x, json.items.all(y, x == y))`),
		cel(`json.items.exists(x, json.big.contains("zz"))`),
		cel(`json.items.map(x, json.big + json.big).size() > 0`),
		cel(`json.items.exists(x, json.big.matches("(a+)+` + strings.Repeat("b", 40) + `"))`), // Long patterns cost more, so this is over sooner.
		cel(`json.items.exists(x, json.items + [x] == [x])`),
		cel(`json.items.exists(x, x in [1].map(y, json.items)[0] && x != 1)`),
		cel(`json.items.exists(x, json == {"a": json.big})`),
		cel(`json.items.exists(x, string(json.big) == "")`),
		at("$..*..*..*", success.Exists, nil),
	} {
		set, bad := success.Parse([]success.Rule{rule}, &pattern.Budget{})
		require.Empty(t, bad)
		yardstick := onePass()
		began := time.Now()
		require.Equal(t, 0, set.Judge(answer(long)), "%+v", rule)
		require.Less(t, time.Since(began), 100*yardstick, "%+v: ten passes are what its price allows, without bounds it takes 60,000", rule)
	}
	set, bad := success.Parse([]success.Rule{text(success.Matches, strings.Repeat("(a|aa)+", 25)+"$b")}, &pattern.Budget{})
	require.Empty(t, bad)
	require.Equal(t, 0, set.Judge(answer(strings.Repeat("a", 10_000))))
}

// hostile is a short pattern with a program that takes 40 seconds for four kilobytes.
var hostile = "(?s)" + strings.Repeat("a.{0,999}", 100) + "z"

// TestAPatternIsBoundedByItsProgram has a hostile pattern at each place where a rule may have one,
// also one that an expression puts together.
func TestAPatternIsBoundedByItsProgram(t *testing.T) {
	t.Parallel()
	const limit = "must have at most 200 steps when it is compiled, and has about 199901; write shorter repetitions"
	for _, tc := range []struct {
		rule success.Rule
		want string
	}{
		{text(success.Matches, hostile), "value invalid_value: " + limit},
		{header("X-A", success.Matches, hostile), "value invalid_value: " + limit},
		{at("$.a", success.Matches, hostile), "value invalid_value: " + limit},
		{cel(`body.matches("` + hostile + `")`), "expression cel_invalid: has a pattern that cannot be used: it " + limit},
		{cel(`.matches(body, "` + hostile + `")`), "expression cel_invalid: has a pattern that cannot be used: it " + limit},
		{cel(`json.a.exists(x, x.matches("` + hostile + `") || x.matches("a"))`), "expression cel_invalid: has a pattern that cannot be used: it " + limit},
		{cel(`body.matches("a.{0,999}" + "a.{0,999}")`), "expression cel_invalid: must give matches its pattern as a text"},
		{cel(`["a.{0,999}"].exists(x, body.matches(x))`), "expression cel_invalid: must give matches its pattern as a text"},
		{cel(`.matches(body, json.pattern)`), "expression cel_invalid: must give matches its pattern as a text"},
		{cel(`body.matches(string("a"))`), "expression cel_invalid: must give matches its pattern as a text"},
	} {
		_, bad := success.Parse([]success.Rule{tc.rule}, &pattern.Budget{})
		require.Len(t, bad, 1)
		require.Contains(t, bad[0].Field+" "+bad[0].Code+": "+bad[0].Message, tc.want)
	}
}

// TestThePatternsOfRulesShareABudget has rules of which each is small enough.
func TestThePatternsOfRulesShareABudget(t *testing.T) {
	t.Parallel()
	_, bad := success.Parse([]success.Rule{
		text(success.Matches, "a{148}"), cel(`body.matches("a{100}") && body.matches("b{48}")`), at("$.a", success.Matches, "a{46}"),
	}, &pattern.Budget{})
	require.Len(t, bad, 1)
	require.Equal(t, 1, bad[0].Index)
	require.Contains(t, bad[0].Message, "has a pattern that cannot be used: it must fit beside the other patterns of the endpoint: together they may have 300 steps")
	require.Contains(t, bad[0].Message, "leave 48, and it has 50")
}

// TestPatternCostFollowsProgramSize has expressions with patterns that are short and have long
// programs: over one long text, and over many short ones.
func TestPatternCostFollowsProgramSize(t *testing.T) {
	t.Parallel()
	long := `{"big":"` + strings.Repeat("a", 700_000) + `","items":[` + strings.Repeat("1,", 60_000) + `1]}`
	for expression, says := range map[string]string{
		`json.big.matches("a.{0,90}")`:                         "actual cost limit exceeded",
		`json.big.matches("a.{0,9}")`:                          "",
		`json.items.all(x, "aaaa".matches("(a{0,9}){0,9}"))`:   "actual cost limit exceeded",
		`!json.items.all(x, "aaaa".matches("b"))`:              "",
		`json.items.all(x, "a".matches("a") || x.matches(""))`: "",
	} {
		set, bad := success.Parse([]success.Rule{cel(expression)}, &pattern.Budget{})
		require.Empty(t, bad, expression)
		a := answer(long)
		if says == "" {
			require.Equal(t, -1, set.Judge(a), expression)
			continue
		}
		require.Equal(t, 0, set.Judge(a), expression)
		require.Contains(t, set.Explain(0, a), says)
	}
}

// TestAPathDoesNotMultiplyAPattern has a path that names one long text again and again.
func TestAPathDoesNotMultiplyAPattern(t *testing.T) {
	t.Parallel()
	a := answer(`{"a":"` + strings.Repeat("a", 1000) + `","b":"ab"}`)
	set, bad := success.Parse([]success.Rule{at("$['a','a','a','a','b']", success.Matches, "a"), at("$['a','a','a','a','a','b']", success.Matches, "a")}, &pattern.Budget{})
	require.Empty(t, bad)
	require.Equal(t, 1, set.Judge(a))
	require.Contains(t, set.Explain(1, a), "the path names the same texts over and over: more than 4 times as much as the body has")
}

// TestEqualPathsAreLookedForOnce has rules about one path, of which the second and the fourth are
// broken by different values.
func TestEqualPathsAreLookedForOnce(t *testing.T) {
	t.Parallel()
	large := `{"list":[` + strings.Repeat(`"abcdefg",`, 50_000) + `"z"]}`
	spent := func(paths ...string) int {
		var rules []success.Rule
		for _, path := range paths {
			rules = append(rules, at(path, success.Exists, nil))
		}
		set, bad := success.Parse(rules, &pattern.Budget{})
		require.Empty(t, bad)
		a := answer(large)
		a.Budget = budget.New(nil)
		require.Equal(t, -1, set.Judge(a))
		return budget.Steps - a.Budget.Remaining()
	}
	one := spent("$.list[*]")
	require.Less(t, spent(slices.Repeat([]string{"$.list[*]"}, 16)...), one+16*2*50_001, "each rule compares all values, and one search finds them")
	require.Greater(t, spent("$.list[*]", "$.list[0:]"), one)

	set, bad := success.Parse([]success.Rule{
		at("$.list[*]", success.Exists, nil), at("$.list[*]", success.Matches, "^a"), at("$.list[*]", success.NotEquals, 7), at("$.list[*]", success.Equals, "z"),
	}, &pattern.Budget{})
	require.Empty(t, bad)
	a := answer(large)
	require.Equal(t, 1, set.Judge(a))
	require.Contains(t, set.Explain(1, a), `found "z"`)
	require.Contains(t, set.Explain(3, a), `found "abcdefg"`)
	require.Contains(t, set.Explain(0, a), "what was found is hidden", "it holds")
}

// TestExhaustedBudgetFailsRule has each kind of rule that looks for something, with a
// budget that is spent before it or by it.
func TestExhaustedBudgetFailsRule(t *testing.T) {
	t.Parallel()
	large := `{"list":[` + strings.Repeat(`"abcdefg",`, 60_000) + `"z"]}`
	for _, rule := range []success.Rule{
		at("$"+strings.Repeat("[*]", 1)+strings.Repeat("[::1,::1,::1,::1,::1,::1,::1,::1,::1,::1]", 7), success.NotEquals, 1), at("$.list[*]", success.NotEquals, 1),
		text(success.Matches, "a{2}|b"), header("X-Many", success.Matches, "a"), cel("status == 200"),
	} {
		set, bad := success.Parse([]success.Rule{rule}, &pattern.Budget{})
		require.Empty(t, bad)
		a := answer(large)
		for a.Budget = budget.New(nil); a.Budget.Remaining() > 0; {
			_ = a.Budget.Spend(1000)
		}
		require.Equal(t, 0, set.Judge(a), rule)
		require.Contains(t, set.Explain(0, a.Shown(a.Header, a.Body)), "it cannot be judged: the rules and redactions of the endpoint take more than 4000000 steps", rule)
	}
	set, bad := success.Parse([]success.Rule{header("X-Many", success.Equals, "a, b"), {Type: success.Latency, MaxLatencyMs: 1000}}, &pattern.Budget{})
	require.Empty(t, bad)
	a := answer(large)
	a.Budget = budget.Ended(budget.ErrEnded)
	require.Equal(t, -1, set.Judge(a), "what takes no search is judged all the same")
}

// onePass returns how long one honest pass of a pattern over the largest answer takes, here and
// now: a busy machine and the race detector stretch it like everything else.
func onePass() time.Duration {
	pattern, tenth := regexp.MustCompile("(a+)+b"), strings.Repeat("a", 70_000)
	began := time.Now()
	_ = pattern.MatchString(tenth)
	return 10 * time.Since(began)
}

// TestAVerdictIsSafeToShow has answers that try to inject markup or terminal escapes into a
// verdict.
func TestAVerdictIsSafeToShow(t *testing.T) {
	t.Parallel()
	set, bad := success.Parse([]success.Rule{text(success.Equals, "x")}, &pattern.Budget{})
	require.Empty(t, bad)
	a := answer("\x1b[2J\u202e\r\n" + strings.Repeat("ü", 5000))
	words := set.Explain(0, a)
	require.Less(t, len(words), 1000)
	for _, r := range words {
		require.True(t, r >= ' ' && r != '\u202e' && r != 0x7f, "%q", words)
	}
	require.Contains(t, words, `"\x1b[2J\u202e\r\nü`)
	require.Contains(t, words, "bytes more")
}

// TestVerdictQuotesRedactedText explains by an answer of which parts are hidden.
func TestVerdictQuotesRedactedText(t *testing.T) {
	t.Parallel()
	set, bad := success.Parse([]success.Rule{at("$.token", success.Matches, "^x"), at("$.other", success.Equals, "***")}, &pattern.Budget{})
	require.Empty(t, bad)
	require.Equal(t, 0, set.Judge(answer(`{"token":"secret"}`)))
	require.Contains(t, set.Explain(0, answer(`{"token":"***"}`)), `found "***"`)
	require.Contains(t, set.Explain(0, answer(`***`)), "cannot be read as JSON")
	require.Contains(t, set.Explain(1, answer(`{"other":"***"}`)), "what was found is hidden")
}

func BenchmarkJudge(b *testing.B) {
	for name, rule := range map[string]success.Rule{
		"header": header("Content-Type", success.Matches, "json"), "json": at("$.status", "", "ok"), "cel": cel(`json.status == "ok" && status == 200`),
		"body": text(success.Matches, `"status":"ok"`),
	} {
		set, _ := success.Parse([]success.Rule{rule}, &pattern.Budget{})
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if set.Judge(answer(body)) >= 0 {
					b.Fatal(fmt.Sprint(rule))
				}
			}
		})
	}
}
