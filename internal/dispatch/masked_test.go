package dispatch_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/egress/egresstest"
	"rubato/internal/endpoints"
	"rubato/internal/runs"
)

const (
	keyCanary   = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n-----END KEY-----"
	slashCanary = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
	plainCanary = "hunter-two-1234-and-then-some-more"
)

// echo is an edit for a request that holds the secrets key, slashes and plain. It captures up to a
// kilobyte of the answer.
func echo(s *endpoints.Spec) {
	s.MaxResponseKB, s.ResponseTailKB = 1, 1
	s.Method, s.Body = "POST", `{"key": "{{secret "key"}}"}`
	s.Headers = map[string]string{"Content-Type": "application/json", "X-Slashes": `{{secret "slashes"}}`, "X-Plain": `{{secret "plain"}}`}
}

func canaries() map[string]string {
	return map[string]string{"key": keyCanary, "slashes": slashCanary, "plain": plainCanary}
}

// inJSON returns a text in a JSON string of an object, as most write it.
func inJSON(t *testing.T, name, text string) string {
	t.Helper()
	out, err := json.Marshal(map[string]string{name: text})
	require.NoError(t, err)
	return string(out)
}

func broken(s *endpoints.Spec) {
	s.SuccessRules = []endpoints.AnswerRule{{Type: "body", Op: "equals", Value: "good"}}
}

func patterned(s *endpoints.Spec) { s.Redact = []endpoints.RedactRule{{Pattern: "[0-9]{4}"}} }

// TestSecretsAreMaskedBeforeAnAnswerIsProcessed: masking comes first, because quoting, further
// escapes, cuts and patterns make a secret hard to find.
func TestSecretsAreMaskedBeforeAnAnswerIsProcessed(t *testing.T) {
	t.Parallel()
	sent := inJSON(t, "key", keyCanary)
	php := strings.ReplaceAll(slashCanary, "/", `\/`)
	for name, tc := range map[string]struct {
		answer string
		edit   func(*endpoints.Spec)
	}{
		"Verdict":            {egresstest.OK("begin " + sent), broken},
		"EchoOfTheBody":      {egresstest.OK(inJSON(t, "begin", sent)), nil},
		"VerdictOfTheEcho":   {egresstest.OK(inJSON(t, "begin", sent)), broken},
		"EchoOfTheEcho":      {egresstest.OK(inJSON(t, "begin", inJSON(t, "data", sent))), nil},
		"PercentTwice":       {egresstest.OK("begin " + url.QueryEscape(url.QueryEscape(slashCanary))), nil},
		"PercentInJSONCut":   {egresstest.OK("begin " + filled(strings.ReplaceAll(url.QueryEscape(keyCanary), "%", `\u0025`), 9)), nil},
		"CutPHP":             {egresstest.OK("begin " + filled(php, 1)), func(s *endpoints.Spec) { s.ResponseTailKB = 0 }},
		"TailOfPHP":          {egresstest.OK("begin " + filled(php, 14)), nil},
		"PatternInAHeader":   {"HTTP/1.1 200 OK\r\nContent-Type: begin/" + plainCanary + "\r\nContent-Length: 2\r\n\r\nhi", patterned},
		"PatternInAStop":     {"HTTP/1.1 200 OK\r\nRubato-Stop: begin " + plainCanary + "\r\nContent-Length: 2\r\n\r\nhi", patterned},
		"PatternInAVerdict":  {"HTTP/1.1 200 OK\r\nX-A: begin " + plainCanary + "\r\nContent-Length: 2\r\n\r\nhi", both(patterned, inHeader)},
		"PatternInABadTail":  {"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\nbegin " + plainCanary, patterned},
		"VerdictOfALongText": {egresstest.OK("begin " + strings.Repeat("x", 150) + sent), broken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			know := b.lockedAway(t, canaries())
			b.register(t, egresstest.Start(t, egresstest.Once(tc.answer)), func(s *endpoints.Spec) {
				echo(s)
				if tc.edit != nil {
					tc.edit(s)
				}
			})
			b.work(t, know)
			b.awaitTimely(t, 1)
			stored := b.kept(t)
			if !strings.Contains(name, "BadTail") {
				require.Contains(t, stored, "begin")
				require.Contains(t, stored, "[secret]")
			}
			for _, part := range []string{"BEGIN KEY", "MIIEvQ", "AgEAAoIB", "wJalrXUt", "K7MDENG", "EXAMPLEKEY", "hunter-two", "then-some"} {
				require.NotContains(t, stored, part)
			}
		})
	}
}

// filled returns a text behind as much of anything that so many bytes of it are over the first
// kilobyte of an answer that begins with "begin ".
func filled(text string, over int) string {
	return strings.Repeat("x", 1024-len("begin ")-len(text)+over) + text
}

func both(edits ...func(*endpoints.Spec)) func(*endpoints.Spec) {
	return func(s *endpoints.Spec) {
		for _, edit := range edits {
			edit(s)
		}
	}
}

func inHeader(s *endpoints.Spec) {
	s.SuccessRules = []endpoints.AnswerRule{{Type: "header", Header: "X-A", Op: "equals", Value: "good"}}
}

// TestSuccessRulesJudgeTheUnmaskedAnswer: rules see the secrets of an answer, and only the text
// about the verdict is masked.
func TestSuccessRulesJudgeTheUnmaskedAnswer(t *testing.T) {
	t.Parallel()
	number := "4711471147114711"
	body := inJSON(t, "key", plainCanary)
	for name, tc := range map[string]struct {
		body   string
		rule   endpoints.AnswerRule
		reason runs.Reason
		says   string
	}{
		"Equals":     {body, endpoints.AnswerRule{Type: "json", JSONPath: "$.key", Op: "equals", Value: plainCanary}, runs.HTTPStatus, ""},
		"Matches":    {body, endpoints.AnswerRule{Type: "body", Op: "matches", Value: "two-[0-9]{4}-and"}, runs.HTTPStatus, ""},
		"Header":     {body, endpoints.AnswerRule{Type: "header", Header: "X-A", Op: "equals", Value: plainCanary}, runs.HTTPStatus, ""},
		"Expression": {body, endpoints.AnswerRule{Type: "cel", Expression: "json.key.size() == 34"}, runs.HTTPStatus, ""},
		"Masked": {
			inJSON(t, "key", "[secret]"), endpoints.AnswerRule{Type: "json", JSONPath: "$.key", Op: "equals", Value: plainCanary}, runs.SuccessRuleFailed, `found "[secret]"`,
		},
		"NotTheMask": {body, endpoints.AnswerRule{Type: "json", JSONPath: "$.key", Op: "equals", Value: "[secret]"}, runs.SuccessRuleFailed, "what was found is hidden"},
		"NoJSONAnyMore": {
			`{"pin":` + number + `,"state":"down"}`, endpoints.AnswerRule{Type: "json", JSONPath: "$.state", Op: "equals", Value: "up"}, runs.SuccessRuleFailed, "what was found is hidden",
		},
		"NeverJSON": {"<p>", endpoints.AnswerRule{Type: "json", JSONPath: "$.state", Op: "equals", Value: "up"}, runs.SuccessRuleFailed, "cannot be read as JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			values := canaries()
			values["plain"], values["key"] = plainCanary, number
			know := b.lockedAway(t, values)
			answer := strings.Replace(egresstest.OK(tc.body), "\r\n", "\r\nX-A: "+plainCanary+"\r\n", 1)
			e := b.register(t, egresstest.Start(t, egresstest.Once(answer)), both(echo, func(s *endpoints.Spec) { s.SuccessRules = []endpoints.AnswerRule{tc.rule} }))
			b.work(t, know)
			o := b.only(t, e).Outcome
			require.Equal(t, tc.reason, o.Reason, o.Error)
			require.Contains(t, o.Error, tc.says)
			require.NotContains(t, string(o.Body), plainCanary)
		})
	}
}

// TestATestShowsNothingOfASecretThatAPatternHits, in the header of the answer.
func TestATestShowsNothingOfASecretThatAPatternHits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.safe(t)
	for name, value := range canaries() {
		s.put(t, name, value)
	}
	target := egresstest.Start(t, egresstest.Answer("HTTP/1.1 200 OK\r\nX-Echo: "+plainCanary+" 5555\r\nContent-Length: 2\r\n\r\nhi"))
	result, err := s.tester(t, onLoopback()).Test(t.Context(), tenant, b.draft(t, target.URL(), both(echo, patterned)))
	require.NoError(t, err)
	require.Equal(t, []string{"[secret] ***"}, result.Answer["X-Echo"])
}

// TestOverlapOfASecretAndAPatternIsMaskedWhole has overlapping matches. Masking one after the other
// would leave a rest of the second.
func TestOverlapOfASecretAndAPatternIsMaskedWhole(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ pattern, want string }{
		"PartOfASecret":    {"[0-9]{4}", "***"},
		"MoreThanASecret":  {"plain=[a-z0-9-]+&pin=[0-9]+", "***"},
		"BesideTheSecret":  {"pin=[0-9]+", "begin plain=[secret]&*** end"},
		"NothingInTheBody": {"nothing", "begin plain=[secret]&pin=481516 end"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			know := b.lockedAway(t, canaries())
			answer := egresstest.OK("begin plain=" + plainCanary + "&pin=481516 end")
			b.register(t, egresstest.Start(t, egresstest.Once(answer)), func(s *endpoints.Spec) {
				echo(s)
				s.Redact = []endpoints.RedactRule{{Pattern: tc.pattern}}
			})
			b.work(t, know)
			b.awaitTimely(t, 1)
			require.Equal(t, tc.want, query[string](t, b, "SELECT convert_from(body, 'UTF8') FROM run_bodies LIMIT 1"))
		})
	}
}
