// Package success judges whether an answer satisfies the rules of a user: about headers, body,
// values in JSON, latency, or a CEL expression. It is pure. Time and memory of a judgement are
// bounded for any rules and any answer.
package success

import (
	"encoding/json"
	"fmt"
	"net/textproto"
	"regexp"
	"strconv"
	"time"

	"rubato/internal/pattern"
)

const (
	maxLiteral = 1024 // bytes
	maxLatency = 30 * time.Minute
)

// Type is the subject of a rule.
type Type string

// The types.
const (
	Header  Type = "header"
	Body    Type = "body"
	JSON    Type = "json"
	CEL     Type = "cel"
	Latency Type = "latency"
)

// Op is the comparison of a rule.
type Op string

// The comparisons.
const (
	Exists         Op = "exists"
	Equals         Op = "equals"
	NotEquals      Op = "notEquals"
	Matches        Op = "matches" // RE2, anywhere in the text
	Less           Op = "less"
	LessOrEqual    Op = "lessOrEqual"
	Greater        Op = "greater"
	GreaterOrEqual Op = "greaterOrEqual"
)

// Rule is one condition on an answer, as the user configured it.
type Rule struct {
	Type     Type
	Header   string // header: its name, in any case
	JSONPath string // json
	// Op is for header, body and json. Empty means Equals if Value is set, else Exists.
	Op Op
	// Value is for header, body and json: a string, number, bool or nil.
	Value        any
	Expression   string // cel
	MaxLatencyMs int64  // latency: 1 to 30 minutes
}

// Problem is a fault in one field of a rule.
type Problem struct {
	Index int // of the rule
	// Field is the API name of the field; empty: the rule as a whole.
	Field string
	Code  string
	// Message states the right form.
	Message string
}

// check is a parsed rule. It judges an answer and describes the value that was found, or why the
// rule could not be evaluated.
type check interface {
	// holds judges an answer. found is unescaped text of any length.
	holds(a *Answer) (ok bool, found string)
	// looksAtBody reports whether the result depends on the body.
	looksAtBody() bool
	// String describes the rule.
	String() string
}

// Set is a list of parsed rules. It is safe for concurrent use.
type Set struct{ checks []check }

// Parse parses rules. The nil Set of no rules accepts every answer. The patterns are charged to the
// budget. Every bad field yields a problem.
func Parse(rules []Rule, budget *pattern.Budget) (*Set, []Problem) {
	if len(rules) == 0 {
		return nil, nil
	}
	set := &Set{}
	var bad []Problem
	for i, rule := range rules {
		parsed, problems := rule.parse(budget)
		for _, p := range problems {
			p.Index = i
			bad = append(bad, p)
		}
		set.checks = append(set.checks, parsed)
	}
	if len(bad) > 0 {
		return nil, bad
	}
	set.join()
	return set, nil
}

// LookAtBody returns the indexes of the rules that depend on the body.
func (s *Set) LookAtBody() []int {
	if s == nil {
		return nil
	}
	var list []int
	for i, c := range s.checks {
		if c.looksAtBody() {
			list = append(list, i)
		}
	}
	return list
}

func (r Rule) parse(budget *pattern.Budget) (check, []Problem) {
	bad := r.strangers()
	var parsed check
	var problems []Problem
	switch r.Type {
	case Header:
		parsed, problems = r.header(budget)
	case Body:
		parsed, problems = r.textual(bodySubject{}, budget)
	case JSON:
		parsed, problems = r.json(budget)
	case CEL:
		parsed, problems = compileCEL(r.Expression, budget)
	case Latency:
		parsed, problems = r.latency()
	default:
		problems = []Problem{{
			Field:   "type",
			Code:    "invalid_value",
			Message: "must be one of header, body, json, cel, latency",
		}}
	}
	return parsed, append(bad, problems...)
}

// strangers returns the faults of fields that the type does not use.
func (r Rule) strangers() []Problem {
	compares := r.Type == Header || r.Type == Body || r.Type == JSON
	var bad []Problem
	for _, f := range []struct {
		name  string
		given bool
		used  bool
	}{
		{"header", r.Header != "", r.Type == Header},
		{"jsonPath", r.JSONPath != "", r.Type == JSON},
		{"op", r.Op != "", compares},
		{"value", r.Value != nil, compares},
		{"expression", r.Expression != "", r.Type == CEL},
		{"maxLatencyMs", r.MaxLatencyMs != 0, r.Type == Latency},
	} {
		if f.given && !f.used {
			bad = append(bad, Problem{
				Field:   f.name,
				Code:    "not_used",
				Message: fmt.Sprintf("must be absent: a rule of type %s does not use it", r.Type),
			})
		}
	}
	return bad
}

// headerName matches a token of RFC 9110.
var headerName = regexp.MustCompile("^[0-9A-Za-z!#$%&'*+.^_`|~-]+$")

func (r Rule) header(budget *pattern.Budget) (check, []Problem) {
	name := r.Header
	if name == "" {
		return nil, []Problem{{
			Field:   "header",
			Code:    "required",
			Message: "must name a header",
		}}
	}
	if len(name) > 256 || !headerName.MatchString(name) {
		return nil, []Problem{{
			Field:   "header",
			Code:    "header_invalid",
			Message: "must be the name of a header: ASCII letters, digits and !#$%&'*+-.^_`|~ only, at most 256 bytes",
		}}
	}
	return r.textual(headerSubject(textproto.CanonicalMIMEHeaderKey(name)), budget)
}

func (r Rule) latency() (check, []Problem) {
	if r.MaxLatencyMs < 1 || r.MaxLatencyMs > maxLatency.Milliseconds() {
		return nil, []Problem{{
			Field:   "maxLatencyMs",
			Code:    "out_of_range",
			Message: "must be from 1 to 1800000 (milliseconds)",
		}}
	}
	return latencyCheck(r.MaxLatencyMs) * latencyCheck(time.Millisecond), nil
}

// op returns the comparison of the rule, with its default.
func (r Rule) op() Op {
	switch {
	case r.Op != "":
		return r.Op
	case r.Value != nil:
		return Equals
	default:
		return Exists
	}
}

// comparison parses the operand. text means that only texts are compared, so that null and booleans
// are refused.
func (r Rule) comparison(text bool, budget *pattern.Budget) (comparison, []Problem) {
	c := comparison{op: r.op()}
	switch c.op {
	case Exists:
		if r.Value != nil {
			return c, []Problem{{
				Field:   "value",
				Code:    "not_used",
				Message: "must be absent: exists compares with nothing",
			}}
		}
	case Equals, NotEquals:
		return c.literal(r.Value, text)
	case Matches:
		return c.pattern(r.Value, budget)
	case Less, LessOrEqual, Greater, GreaterOrEqual:
		number := numberOf(r.Value)
		if number == "" {
			return c, []Problem{{
				Field:   "value",
				Code:    "invalid_value",
				Message: fmt.Sprintf("must be a number: %s compares numbers", c.op),
			}}
		}
		c.number, c.literalText = number, literal(r.Value)
	default:
		return c, []Problem{{
			Field:   "op",
			Code:    "invalid_value",
			Message: "must be one of exists, equals, notEquals, matches, less, lessOrEqual, greater, greaterOrEqual",
		}}
	}
	return c, nil
}

func (c comparison) literal(value any, text bool) (comparison, []Problem) {
	wrong := []Problem{{
		Field:   "value",
		Code:    "invalid_value",
		Message: "must be a text, a number, true, false or null",
	}}
	switch v := value.(type) {
	case string:
		if len(v) > maxLiteral {
			return c, []Problem{{
				Field:   "value",
				Code:    "too_long",
				Message: fmt.Sprintf("must be at most %d bytes long", maxLiteral),
			}}
		}
	case nil, bool:
		if text {
			return c, []Problem{{
				Field:   "value",
				Code:    "invalid_value",
				Message: "must be a text or a number",
			}}
		}
	default:
		if c.number = numberOf(value); c.number == "" {
			return c, wrong
		}
	}
	c.value, c.literalText = value, literal(value)
	return c, nil
}

func (c comparison) pattern(value any, budget *pattern.Budget) (comparison, []Problem) {
	text, ok := value.(string)
	if !ok || text == "" {
		return c, []Problem{{
			Field:   "value",
			Code:    "invalid_value",
			Message: "must be a regular expression (RE2)",
		}}
	}
	compiled, err := budget.Compile(text)
	if err != nil {
		return c, []Problem{{
			Field:   "value",
			Code:    "invalid_value",
			Message: err.Error(),
		}}
	}
	c.re, c.literalText = compiled, strconv.Quote(text)
	return c, nil
}

// numberOf returns the JSON form of a number; empty for any other value.
func numberOf(value any) json.Number {
	switch v := value.(type) {
	case json.Number:
		return v
	case int, int64, float64:
		return json.Number(literal(v))
	default:
		return ""
	}
}

// literal returns the JSON form of a rule's value.
func literal(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(raw)
}
