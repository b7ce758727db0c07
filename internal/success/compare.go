package success

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"rubato/internal/jsonpath"
	"rubato/internal/pattern"
)

// comparison is an operator with what it compares with.
type comparison struct {
	op          Op
	value       any              // of Equals and NotEquals: a string, number, bool or nil
	number      json.Number      // the value, where it is a number
	re          *pattern.Pattern // of Matches
	literalText string           // the value in words; empty for Exists
}

func (c comparison) String() string {
	words := map[Op]string{
		Exists: "exists", Equals: "equals", NotEquals: "does not equal", Matches: "matches",
		Less: "is less than", LessOrEqual: "is at most", Greater: "is greater than", GreaterOrEqual: "is at least",
	}
	return strings.TrimSuffix(words[c.op]+" "+c.literalText, " ")
}

// text compares a text that is there. A number in it counts as a number where the rule compares numbers.
func (c comparison) text(found string) bool {
	switch c.op {
	case Exists:
		return true
	case Matches:
		return c.re.MatchString(found)
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

// json compares a value of a JSON document that is there. Values of different kinds are not equal, and none is less than the other.
func (c comparison) json(found any) bool {
	switch c.op {
	case Exists:
		return true
	case Matches:
		text, is := found.(string)
		return is && c.re.MatchString(text)
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

// numbers compares a number that was found.
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

// decimalText is a number as people and programs write it; JSON has no plus in front, and digits on both sides of the point.
var decimalText = regexp.MustCompile(`^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$`)

// parseNumber reads a number in a text.
func parseNumber(text string) (json.Number, bool) {
	if !decimalText.MatchString(text) {
		return "", false
	}
	return json.Number(strings.TrimPrefix(text, "+")), true
}

// subject is a text of an answer that rules look at.
type subject interface {
	// find returns the text; where there is none, why says so. whole reports whether it is all of it.
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
	return string(a.Body), !a.Truncated, ""
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
	case c.text(text):
		return true, ""
	case !whole:
		return false, "nothing in the part of the body that is read matches"
	default:
		return false, "found " + shorten(text)
	}
}

// maxRepeats bounds the texts that a pattern is looked for in, in bodies: a path may name a long text as often as it has room for.
const maxRepeats = 4

// jsonCheck is a rule about places in the JSON of a body. Every place that the path names must satisfy it.
type jsonCheck struct {
	path *jsonpath.Path
	comparison
}

func (r Rule) json(budget *pattern.Budget) (check, []Problem) {
	c, bad := r.comparison(false, budget)
	if r.JSONPath == "" {
		return nil, append(bad, Problem{Field: "jsonPath", Code: "required", Message: "must name a place, such as $.status"})
	}
	path, err := jsonpath.Parse(r.JSONPath)
	if err != nil {
		return nil, append(bad, Problem{Field: "jsonPath", Code: "jsonpath_invalid", Message: err.Error()})
	}
	return jsonCheck{path, c}, bad
}

func (c jsonCheck) String() string { return fmt.Sprintf("json %s %s", c.path, c.comparison) }

func (jsonCheck) looksAtBody() bool { return true }

func (c jsonCheck) holds(a *Answer) (bool, string) {
	doc, err := a.document()
	if err != nil {
		return false, "the body cannot be read as JSON: " + err.Error()
	}
	values, err := c.path.Find(doc)
	if err != nil {
		return false, err.Error()
	}
	if len(values) == 0 {
		return false, "there is nothing at that place"
	}
	left := maxRepeats * len(a.Body)
	for _, value := range values {
		if text, is := value.(string); is && c.op == Matches {
			if left -= len(text); left < 0 {
				return false, fmt.Sprintf("the path names the same texts over and over: more than %d times as much as the body has", maxRepeats)
			}
		}
		if !c.json(value) {
			return false, "found " + shownJSON(value)
		}
	}
	return true, ""
}

// shownJSON returns a value as JSON, of containers only their kind and size, since they may be large.
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

// latencyCheck is the longest time that an exchange may take.
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
