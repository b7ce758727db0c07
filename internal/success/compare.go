package success

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"rubato/internal/budget"
	"rubato/internal/jsonpath"
	"rubato/internal/pattern"
)

// comparison is an operator and its operand.
type comparison struct {
	op Op
	// value is the operand of Equals and NotEquals: a string, number, bool or nil.
	value any
	// number is the operand if it is a number.
	number json.Number
	// re is the operand of Matches.
	re *pattern.Pattern
	// literalText is the operand as text; empty for Exists.
	literalText string
}

func (c comparison) String() string {
	words := map[Op]string{
		Exists:         "exists",
		Equals:         "equals",
		NotEquals:      "does not equal",
		Matches:        "matches",
		Less:           "is less than",
		LessOrEqual:    "is at most",
		Greater:        "is greater than",
		GreaterOrEqual: "is at least",
	}
	return strings.TrimSuffix(words[c.op]+" "+c.literalText, " ")
}

// text compares an existing text. If the rule compares numbers, a numeric text is compared as a
// number.
func (c comparison) text(found string, b *budget.Budget) bool {
	switch c.op {
	case Exists:
		return true
	case Matches:
		return c.re.MatchString(found, b)
	case Equals, NotEquals:
		if literal, is := c.value.(string); is {
			return (found == literal) == (c.op == Equals)
		}
	case Less, LessOrEqual, Greater, GreaterOrEqual:
	}
	number, ok := parseNumber(strings.TrimSpace(found))
	if !ok {
		return c.op == NotEquals
	}
	return c.numbers(number)
}

// json compares an existing JSON value. Values of different types are neither equal nor ordered.
func (c comparison) json(found any, b *budget.Budget) bool {
	switch c.op {
	case Exists:
		return true
	case Matches:
		text, is := found.(string)
		return is && c.re.MatchString(text, b)
	case Equals, NotEquals, Less, LessOrEqual, Greater, GreaterOrEqual:
	}
	if n, is := found.(json.Number); is {
		return c.numbers(n)
	}
	switch found.(type) {
	case nil, bool, string:
		return (c.op == Equals || c.op == NotEquals) && (c.number == "" && found == c.value) == (c.op == Equals)
	default:
		return c.op == NotEquals
	}
}

// numbers compares a number.
func (c comparison) numbers(found json.Number) bool {
	if c.number == "" {
		return c.op == NotEquals
	}
	order := jsonpath.Compare(found, c.number)
	switch c.op {
	case Equals:
		return order == 0
	case NotEquals:
		return order != 0
	case Less:
		return order < 0
	case LessOrEqual:
		return order <= 0
	case Greater:
		return order > 0
	default:
		return order >= 0
	}
}

// decimalText matches a decimal number in a text. In contrast to JSON it permits a plus sign and a
// point without digits on one side.
var decimalText = regexp.MustCompile(`^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$`)

// parseNumber parses a number in a text.
func parseNumber(text string) (json.Number, bool) {
	if !decimalText.MatchString(text) {
		return "", false
	}
	return json.Number(strings.TrimPrefix(text, "+")), true
}

// subject selects the text of an answer that a rule compares.
type subject interface {
	// find returns the text, or the reason why there is none. whole reports whether the text is
	// complete.
	find(a *Answer) (text string, whole bool, why string)
	String() string
}

type headerSubject string

func (h headerSubject) String() string { return "header " + string(h) }

func (h headerSubject) find(a *Answer) (string, bool, string) {
	values, there := a.Header[string(h)]
	if !there {
		return "", false, "there is no such header"
	}
	return strings.Join(values, ", "), true, ""
}

type bodySubject struct{}

func (bodySubject) String() string { return "body" }

func (bodySubject) find(a *Answer) (string, bool, string) {
	if len(a.Body) == 0 {
		return "", true, "there is no body"
	}
	return a.text(), !a.Truncated, ""
}

// textCheck is a rule about a text.
type textCheck struct {
	subject subject
	comparison
}

func (r Rule) textual(s subject, budget *pattern.Budget) (check, []Problem) {
	c, bad := r.comparison(true, budget)
	return textCheck{s, c}, bad
}

func (c textCheck) String() string { return fmt.Sprintf("%s %s", c.subject, c.comparison) }

func (c textCheck) looksAtBody() bool { return c.subject == bodySubject{} }

func (c textCheck) holds(a *Answer) (bool, string) {
	text, whole, why := c.subject.find(a)
	switch {
	case why != "":
		return false, why
	case !whole && c.op != Exists && c.op != Matches:
		return false, "the body is longer than what is read of it, so it cannot be compared"
	case c.text(text, a.Budget):
		return true, ""
	case !whole:
		return false, "nothing in the part of the body that is read matches"
	default:
		return false, "found " + shorten(text)
	}
}

// maxRepeats bounds the texts of a body that a pattern is matched against, as a multiple of its
// length, because a path may select a long text many times.
const maxRepeats = 4

// compareSteps is the cost of one comparison in steps of the budget.
const compareSteps = 2

// jsonCheck is a rule about values in a JSON body. Every value that the path selects must satisfy
// it.
type jsonCheck struct {
	comparison

	paths *pathChecks
	at    int // index among the rules of its path
}

// pathChecks groups the rules of an endpoint about one path, so that the path is evaluated once.
type pathChecks struct {
	path *jsonpath.Path
	list []comparison
}

// verdict is the result of a rule. It holds the value instead of a text, because text is needed
// only for the broken rule that is shown.
type verdict struct {
	ok   bool
	why  string // why the rule could not be evaluated
	seen any    // the first value that breaks the rule
	left int    // bytes of text that a pattern may still be matched against
}

func (r Rule) json(budget *pattern.Budget) (check, []Problem) {
	c, bad := r.comparison(false, budget)
	if r.JSONPath == "" {
		return nil, append(bad, Problem{
			Field:   "jsonPath",
			Code:    "required",
			Message: "must name a place, such as $.status",
		})
	}
	path, err := jsonpath.Parse(r.JSONPath)
	if err != nil {
		return nil, append(bad, Problem{
			Field:   "jsonPath",
			Code:    "jsonpath_invalid",
			Message: err.Error(),
		})
	}
	return &jsonCheck{comparison: c, paths: &pathChecks{path: path, list: []comparison{c}}}, bad
}

// join groups the rules about equal paths.
func (s *Set) join() {
	known := map[string]*pathChecks{}
	for _, c := range s.checks {
		check, is := c.(*jsonCheck)
		if !is {
			continue
		}
		text := check.paths.path.String()
		if first := known[text]; first != nil {
			check.paths, check.at = first, len(first.list)
			first.list = append(first.list, check.comparison)
		}
		known[text] = check.paths
	}
}

func (c *jsonCheck) String() string { return fmt.Sprintf("json %s %s", c.paths.path, c.comparison) }

func (*jsonCheck) looksAtBody() bool { return true }

func (c *jsonCheck) holds(a *Answer) (bool, string) {
	doc, err := a.document()
	if err != nil {
		return false, "the body cannot be read as JSON: " + err.Error()
	}
	if a.verdicts[c.paths] == nil {
		if a.verdicts == nil {
			a.verdicts = map[*pathChecks][]verdict{}
		}
		a.verdicts[c.paths] = c.paths.judge(doc, a)
	}
	switch v := a.verdicts[c.paths][c.at]; {
	case v.ok, v.why != "":
		return v.ok, v.why
	default:
		return false, "found " + shownJSON(v.seen)
	}
}

// judge evaluates the path, and applies all rules to the selected values until each rule is broken.
func (p *pathChecks) judge(doc *jsonpath.Document, a *Answer) []verdict {
	list, found, open := make([]verdict, len(p.list)), false, len(p.list)
	for i := range list {
		list[i] = verdict{ok: true, left: maxRepeats * len(a.Body)}
	}
	err := p.path.Each(doc, a.Budget, func(value any) bool {
		found = true
		for i, c := range p.list {
			if list[i].ok && !list[i].take(c, value, a.Budget) {
				open--
			}
		}
		return open > 0
	})
	for i := range list {
		switch v := &list[i]; {
		case err != nil:
			*v = verdict{why: err.Error()}
		case !found:
			*v = verdict{why: "there is nothing at that place"}
		}
	}
	return list
}

// take applies the rule to one more value, and reports whether it still holds.
func (v *verdict) take(c comparison, value any, b *budget.Budget) bool {
	if text, is := value.(string); is && c.op == Matches {
		if v.left -= len(text); v.left < 0 {
			v.ok, v.why = false, fmt.Sprintf("the path names the same texts over and over: more than %d times as much as the body has", maxRepeats)
			return false
		}
	}
	if v.ok = b.Spend(compareSteps) == nil && c.json(value, b); !v.ok {
		v.seen = value
	}
	return v.ok
}

// shownJSON returns a value as JSON. Containers are shown by type and size only, because they may
// be large.
func shownJSON(value any) string {
	switch v := value.(type) {
	case []any:
		return fmt.Sprintf("an array of %d elements", len(v))
	case map[string]any:
		return fmt.Sprintf("an object of %d members", len(v))
	case string:
		return shorten(v)
	default:
		return literal(value)
	}
}

// latencyCheck is the maximum duration of an exchange.
type latencyCheck time.Duration

func (c latencyCheck) String() string {
	return fmt.Sprintf("latency is at most %d ms", time.Duration(c).Milliseconds())
}

func (latencyCheck) looksAtBody() bool { return false }

func (c latencyCheck) holds(a *Answer) (bool, string) {
	if a.Latency <= time.Duration(c) {
		return true, ""
	}
	return false, fmt.Sprintf("it took %.1f ms", float64(a.Latency.Microseconds())/1000)
}
