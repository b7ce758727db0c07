package endpoints

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/textproto"

	"rubato/internal/change"
	"rubato/internal/errs"
	"rubato/internal/pattern"
	"rubato/internal/redact"
	"rubato/internal/success"
)

// ParseAnswers parses the success rules and the redaction rules; each set is nil if it is empty.
// The patterns of both share one budget, because each run pays for all of them. Every bad field is
// named.
func (s *Spec) ParseAnswers() (*success.Set, *redact.Set, []errs.Field) {
	var budget pattern.Budget
	rules, bad := s.parseRules(&budget)
	hidden, more := s.parseRedact(&budget)
	return rules, hidden, append(bad, more...)
}

func (s *Spec) parseRules(budget *pattern.Budget) (*success.Set, []errs.Field) {
	rules := make([]success.Rule, len(s.SuccessRules))
	for i, r := range s.SuccessRules {
		rules[i] = success.Rule{
			Type:         r.Type,
			Header:       r.Header,
			JSONPath:     r.JSONPath,
			Op:           r.Op,
			Value:        r.Value,
			Expression:   r.Expression,
			MaxLatencyMs: r.MaxLatencyMs,
		}
	}
	set, problems := success.Parse(rules, budget)
	bad := make([]errs.Field, 0, len(problems))
	for _, p := range problems {
		bad = append(bad, errs.Field{
			Field:   element("successRules", p.Index, p.Field),
			Code:    p.Code,
			Message: p.Message,
		})
	}
	return set, bad
}

func (s *Spec) parseRedact(budget *pattern.Budget) (*redact.Set, []errs.Field) {
	rules := make([]redact.Rule, len(s.Redact))
	for i, r := range s.Redact {
		rules[i] = redact.Rule{
			Header:      r.Header,
			JSONPath:    r.JSONPath,
			Pattern:     r.Pattern,
			Replacement: r.Replacement,
		}
	}
	set, problems := redact.Parse(rules, budget)
	bad := make([]errs.Field, 0, len(problems))
	for _, p := range problems {
		bad = append(bad, errs.Field{
			Field:   element("redact", p.Index, p.Field),
			Code:    p.Code,
			Message: p.Message,
		})
	}
	return set, bad
}

// element returns the path of a field of a list element.
func element(list string, index int, field string) string {
	name := fmt.Sprintf("%s[%d]", list, index)
	if field == "" {
		return name
	}
	return name + "." + field
}

// answers checks the rules that judge and redact answers.
func answers(s Spec) []errs.Field {
	rules, _, bad := s.ParseAnswers()
	if s.MaxResponseKB == 0 {
		for _, i := range rules.LookAtBody() {
			bad = append(bad, errs.Field{
				Field: element("successRules", i, ""), Code: "body_not_read",
				Message: "looks at the body, of which maxResponseKb (0) reads nothing; raise that to what the body needs",
			})
		}
	}
	_, more := s.ParseForm()
	return append(append(bad, more...), keyless(s)...)
}

// ParseForm returns the part of an answer that is compared. Every bad path is named.
func (s *Spec) ParseForm() (change.Form, []errs.Field) {
	form, problems := change.Parse(s.ChangeKey, s.Ignore)
	bad := make([]errs.Field, 0, len(problems))
	for _, p := range problems {
		bad = append(bad, errs.Field{
			Field:   element([]string{"changeKey", "ignore"}[p.List], p.Index, ""),
			Code:    "jsonpath_invalid",
			Message: p.Message,
		})
	}
	return form, bad
}

// keyless refuses paths in answers of which nothing is read.
func keyless(s Spec) (bad []errs.Field) {
	if s.MaxResponseKB != 0 {
		return nil
	}
	refuse := func(name string, paths []string) {
		if len(paths) > 0 {
			bad = append(bad, errs.Field{
				Field:   name,
				Code:    "body_not_read",
				Message: "looks at the body, of which maxResponseKb (0) reads nothing; raise that to what the body needs",
			})
		}
	}
	refuse("changeKey", s.ChangeKey)
	refuse("ignore", s.Ignore)
	return bad
}

// AsksConditionally reports whether requests carry the validators of the last answer. Only GET and
// HEAD do, and only if the user writes no condition of his own.
func (s *Spec) AsksConditionally() bool {
	if !s.Conditional || s.Method != "GET" && s.Method != "HEAD" {
		return false
	}
	for name := range s.Headers {
		switch textproto.CanonicalMIMEHeaderKey(name) {
		case "If-None-Match", "If-Modified-Since", "If-Match", "If-Unmodified-Since", "If-Range":
			return false
		}
	}
	return true
}

// RequestDigest returns a hash of the request and of the rules for its answer, which is never 0.
// Validators such as an ETag hold only for the same hash, so that an edit of a rule is followed by
// a complete answer.
func (s *Spec) RequestDigest() uint64 {
	h := fnv.New64a()
	err := json.NewEncoder(h).Encode(struct {
		Method, URL, Body string
		Headers, Query    map[string]string
		Auth              *Auth
		Success           string
		Rules             []AnswerRule
		Read              [2]int
		Key, Ignore       []string
	}{
		Method:  s.Method,
		URL:     s.URL,
		Body:    s.Body,
		Headers: s.Headers,
		Query:   s.Query,
		Auth:    s.Auth,
		Success: s.Success,
		Rules:   s.SuccessRules,
		Read:    [2]int{s.MaxResponseKB, s.ResponseTailKB},
		Key:     s.ChangeKey,
		Ignore:  s.Ignore,
	})
	must(err) // Texts always encode.
	return max(h.Sum64(), 1)
}
