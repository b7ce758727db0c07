package success

import (
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"rubato/internal/budget"
	"rubato/internal/jsonpath"
)

const (
	maxFound = 200  // bytes of the found value in a verdict
	maxWords = 1000 // bytes of a verdict
)

// Answer is the input of rules. It is not safe for concurrent use.
type Answer struct {
	Status int
	// Header is keyed by canonical names, as in net/http.
	Header map[string][]string
	// Body is decompressed. If Truncated is set it is only the beginning.
	Body []byte
	// Truncated means that the body is longer than the part that was read.
	Truncated bool
	// Latency is the duration of the whole exchange.
	Latency time.Duration
	// Budget bounds the cost of judging; nil: unbounded.
	Budget *budget.Budget

	doc      *jsonpath.Document
	fail     error
	was      bool  // the body was JSON before parts of it were hidden
	stopped  error // the budget's error that ended the parsing
	body     *string
	plain    any // the document in the form of expressions; nil: not converted yet
	verdicts map[*pathChecks][]verdict
}

// text returns the body as a string, converted once.
func (a *Answer) text() string {
	if a.body == nil {
		a.body = new(string(a.Body))
	}
	return *a.body
}

// Shown returns the answer with a redacted header and body, for the explanation of a verdict.
func (a *Answer) Shown(header map[string][]string, body []byte) *Answer {
	return &Answer{
		Status:    a.Status,
		Header:    header,
		Body:      body,
		Truncated: a.Truncated,
		Latency:   a.Latency,
		Budget:    a.Budget.Renewed(),
		was:       a.doc != nil,
		stopped:   a.stopped,
	}
}

var errTruncated = errors.New("it is longer than what is read of it (maxResponseKb)")

// document returns the body as JSON, parsed once.
func (a *Answer) document() (*jsonpath.Document, error) {
	if a.doc == nil && a.fail == nil {
		if a.Truncated {
			a.fail = errTruncated
		} else {
			a.doc, a.fail = jsonpath.Read(a.Body, a.Budget)
		}
	}
	return a.doc, a.fail
}

// Judge returns the index of the first broken rule, or -1 if the answer satisfies all rules. A rule
// that exceeds the budget counts as broken.
func (s *Set) Judge(a *Answer) int {
	if s == nil {
		return -1
	}
	for i, c := range s.checks {
		if ok, _ := c.holds(a); !ok {
			a.stopped = a.Budget.Err()
			return i
		}
	}
	return -1
}

// JudgeUnchanged is [Set.Judge] for a 304 answer. Only the latency is judged, because the last full
// answer satisfied the other rules.
func (s *Set) JudgeUnchanged(a *Answer) int {
	if s == nil {
		return -1
	}
	for i, c := range s.checks {
		if limit, is := c.(latencyCheck); is {
			if ok, _ := limit.holds(a); !ok {
				return i
			}
		}
	}
	return -1
}

// Explain describes the broken rule and the value that was found. The text is safe to show, because
// shown is the answer after redaction.
func (s *Set) Explain(broken int, shown *Answer) string {
	var found string
	c := s.checks[broken]
	if shown.stopped != nil {
		found = "it cannot be judged: " + shown.stopped.Error()
	} else if ok, words := c.holds(shown); ok || shown.was && shown.fail != nil || shown.Budget.Err() != nil {
		found = "what was found is hidden"
	} else {
		found = words
	}
	return cut(fmt.Sprintf("successRules[%d] does not hold (%s): %s", broken, c, found), maxWords)
}

// shorten quotes a text of the target up to a bound, so that control characters in it have no
// effect.
func shorten(text string) string {
	short := cut(text, maxFound)
	quoted := strconv.Quote(short)
	if len(short) < len(text) {
		return fmt.Sprintf("%s and %d bytes more", quoted, len(text)-len(short))
	}
	return quoted
}

// cut returns the beginning of a text, at most limit bytes, without splitting a character.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
