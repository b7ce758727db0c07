package endpoints_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
)

// TestAnswerRulesAreValidated covers each rule about answers. An empty want is a valid spec.
func TestAnswerRulesAreValidated(t *testing.T) {
	t.Parallel()
	type spec = endpoints.Spec
	rules := func(rules ...endpoints.AnswerRule) func(*spec) { return func(s *spec) { s.SuccessRules = rules } }
	good := endpoints.AnswerRule{Type: "json", JSONPath: "$.ok", Op: "equals", Value: true}
	for name, tc := range map[string]struct {
		edit func(*spec)
		want []string
	}{
		"Good":       {rules(good), nil},
		"BadOnes":    {rules(good, endpoints.AnswerRule{Type: "json", JSONPath: "ok"}, endpoints.AnswerRule{Type: "cel", Expression: "1 +"}), []string{"successRules[1].jsonPath jsonpath_invalid", "successRules[2].expression cel_invalid"}},
		"Whole":      {func(s *spec) { s.Redact = []endpoints.RedactRule{{}} }, []string{"redact[0] invalid_value"}},
		"BadPattern": {func(s *spec) { s.Redact = []endpoints.RedactRule{{Header: "X"}, {Pattern: "("}} }, []string{"redact[1].pattern pattern_invalid"}},
		"HostilePatterns": {func(s *spec) {
			hostile := "(?s)" + strings.Repeat("a.{0,999}", 100) + "z"
			rules(endpoints.AnswerRule{Type: "body", Op: "matches", Value: hostile}, endpoints.AnswerRule{Type: "cel", Expression: `body.matches("` + hostile + `")`})(s)
			s.Redact, s.ResponseTailKB = []endpoints.RedactRule{{Pattern: hostile}}, 65
		}, []string{"redact[0].pattern pattern_invalid", "responseTailKb out_of_range", "successRules[0].value invalid_value", "successRules[1].expression cel_invalid"}},
		"PatternsThatFit": {func(s *spec) {
			rules(endpoints.AnswerRule{Type: "body", Op: "matches", Value: "a{148}"})(s)
			s.Redact = []endpoints.RedactRule{{Pattern: "a{148}"}}
		}, nil},
		"PatternsTogether": {func(s *spec) {
			rules(endpoints.AnswerRule{Type: "body", Op: "matches", Value: "a{148}"})(s)
			s.Redact = []endpoints.RedactRule{{Pattern: "a{149}"}, {Pattern: "("}, {Pattern: "a{148}"}}
		}, []string{"redact[0].pattern pattern_invalid", "redact[1].pattern pattern_invalid"}},
		"NoBodyIsRead": {func(s *spec) {
			rules(good, endpoints.AnswerRule{Type: "cel", Expression: "body == ''"})(s)
			s.MaxResponseKB = 0
		}, []string{"successRules[0] body_not_read", "successRules[1] body_not_read"}},
		"NoneIsNeeded": {func(s *spec) {
			rules(endpoints.AnswerRule{Type: "cel", Expression: "status == 200"})(s)
			s.MaxResponseKB = 0
		}, nil},
		"ConditionalGet": {func(s *spec) { s.Conditional = true }, nil},
		"ConditionalPut": {func(s *spec) { s.Conditional, s.Method = true, "PUT" }, nil},
		"OwnCondition":   {func(s *spec) { s.Conditional, s.Headers = true, map[string]string{"if-none-match": "*"} }, nil},
		"OwnAlone":       {func(s *spec) { s.Headers = map[string]string{"if-none-match": "*"} }, nil},
		"ChangeKey":      {func(s *spec) { s.ChangeKey, s.Ignore = []string{"$.a", "a"}, []string{"$..b", "$[?@..c]"} }, []string{"changeKey[1] jsonpath_invalid", "ignore[1] jsonpath_invalid"}},
		"TooManyPaths":   {func(s *spec) { s.ChangeKey = slices.Repeat([]string{"$.a"}, 65); s.Ignore = s.ChangeKey }, []string{"changeKey too_many", "ignore too_many"}},
		"NothingToKey":   {func(s *spec) { s.ChangeKey, s.MaxResponseKB = []string{"$.a"}, 0 }, []string{"changeKey body_not_read"}},
		"NothingIgnored": {func(s *spec) { s.Ignore, s.MaxResponseKB = []string{"$.a"}, 0 }, []string{"ignore body_not_read"}},
		"TailTooLong":    {func(s *spec) { s.ResponseTailKB = 65 }, []string{"responseTailKb out_of_range"}},
	} {
		require.Equal(t, tc.want, check(tc.edit), name)
	}
	s := valid()
	s.SuccessRules = make([]endpoints.AnswerRule, 17)
	for i := range s.SuccessRules {
		s.SuccessRules[i] = good
	}
	require.Equal(t, []string{"successRules too_many"}, check(func(to *spec) { to.SuccessRules = s.SuccessRules }))
}

// TestOnlyPlainReadsAskConditionally: only plain reads send validators by default.
func TestOnlyPlainReadsAskConditionally(t *testing.T) {
	t.Parallel()
	plain := endpoints.Defaults()
	require.True(t, plain.AsksConditionally())
	for name, edit := range map[string]func(*endpoints.Spec){
		"Off":  func(s *endpoints.Spec) { s.Conditional = false },
		"Post": func(s *endpoints.Spec) { s.Method = "POST" },
		"Own":  func(s *endpoints.Spec) { s.Headers = map[string]string{"if-none-match": "*"} },
	} {
		s := endpoints.Defaults()
		edit(&s)
		require.False(t, s.AsksConditionally(), name)
	}
}

// TestRequestDigestDependsOnRequestFields: the digest depends on each field that a target sees or
// that judges its answer, and on no other.
func TestRequestDigestDependsOnRequestFields(t *testing.T) {
	t.Parallel()
	type spec = endpoints.Spec
	base := valid()
	seen := map[uint64]string{base.RequestDigest(): "base"}
	for name, edit := range map[string]func(*spec){
		"URL": func(s *spec) { s.URL += "x" }, "Method": func(s *spec) { s.Method = "HEAD" }, "Body": func(s *spec) { s.Body = "x" },
		"Header": func(s *spec) { s.Headers = map[string]string{"Accept": "x"} }, "Query": func(s *spec) { s.Query = map[string]string{"a": "x"} },
		"Rule": func(s *spec) { s.SuccessRules = []endpoints.AnswerRule{{Type: "body"}} }, "Success": func(s *spec) { s.Success = "200" },
		"Size": func(s *spec) { s.MaxResponseKB = 7 }, "Tail": func(s *spec) { s.ResponseTailKB = 7 },
		"Key": func(s *spec) { s.ChangeKey = []string{"$.a"} }, "Ignore": func(s *spec) { s.Ignore = []string{"$.a"} },
		"Auth": func(s *spec) { s.Auth = &endpoints.Auth{Type: "bearer", Token: "x"} },
	} {
		s := valid()
		edit(&s)
		require.NotContains(t, seen, s.RequestDigest(), name)
		seen[s.RequestDigest()] = name
	}
	other := valid()
	other.Name, other.Timeout = "other", 1
	require.Equal(t, base.RequestDigest(), other.RequestDigest())
	raw, err := json.Marshal(base)
	require.NoError(t, err)
	var again spec
	require.NoError(t, json.Unmarshal(raw, &again))
	require.Equal(t, base.RequestDigest(), again.RequestDigest(), "it outlives the process")
}
