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
	maxFound = 200  // bytes of what was found that a verdict shows
	maxWords = 1000 // bytes of a verdict
)

// Answer is what rules look at. It is not safe for concurrent use.
type Answer struct {
	Status    int
	Header    map[string][]string // by canonical names, as net/http has them
	Body      []byte              // decompressed; the first bytes of it where it is truncated
	Truncated bool                // there was more of the body than was read
	Latency   time.Duration       // of the whole exchange
	Budget    *budget.Budget      // what judging it may take; nil: without a bound

	doc      *jsonpath.Document
	fail     error
	was      bool  // JSON, before parts of it were hidden
	stopped  error // why it could not be judged: the error of its budget
	body     *string
	plain    any // the document as expressions see it; nil: not yet
	verdicts map[*pathChecks][]verdict
}

// text returns the body as a text, made once.
func (a *Answer) text() string {
	if a.body == nil {
		a.body = new(string(a.Body))
	}
	return *a.body
}

// Shown returns the answer as people may see it, with a header and a body in which parts are hidden.
func (a *Answer) Shown(header map[string][]string, body []byte) *Answer {
	return &Answer{
		Status: a.Status, Header: header, Body: body, Truncated: a.Truncated, Latency: a.Latency,
		Budget: a.Budget.Renewed(), was: a.doc != nil, stopped: a.stopped,
	}
}

var errTruncated = errors.New("it is longer than what is read of it (maxResponseKb)")

// document returns the body as JSON, read once.
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

// Judge returns the index of the first rule that the answer breaks, or -1 where it satisfies all of them. A rule that the budget does not
// allow to judge counts as broken.
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

// JudgeUnchanged is [Set.Judge] for an answer that says that nothing changed since the last one that satisfied the rules: how long it took is
// all that there is to judge.
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

// Explain says in words that are safe to show which rule is broken and what was found instead, by the answer as it may be shown: the one
// that was judged, or what is left of it when its secrets are hidden.
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

// shorten quotes a text that a target sent, up to a bound, so that it cannot act on whoever reads it.
func shorten(text string) string {
	short := cut(text, maxFound)
	quoted := strconv.Quote(short)
	if len(short) < len(text) {
		return fmt.Sprintf("%s and %d bytes more", quoted, len(text)-len(short))
	}
	return quoted
}

// cut returns the beginning of a text, at most so many bytes, without half a character.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
