// Package redact removes parts of a response before it is stored or shown: headers, locations in a
// JSON body, and matches of patterns. It is pure and bounded. If it cannot apply all rules, it
// redacts the whole text.
package redact

import (
	"fmt"
	"net/textproto"
	"regexp"
	"slices"

	"rubato/internal/auditlog"
	"rubato/internal/jsonpath"
	"rubato/internal/pattern"
)

const (
	// Mask replaces redacted text.
	Mask = auditlog.Mask

	maxReplacement = 255 // bytes
	// hiddenEdge is the number of bytes that are redacted at the cut of a truncated body, because a
	// pattern does not match the first half of a secret.
	hiddenEdge = 512
)

// Rule is one redaction rule: exactly one of a header, a JSONPath and a pattern.
type Rule struct {
	Header      string
	JSONPath    string // RFC 9535
	Pattern     string // RE2
	Replacement string // literal replacement of matches; empty: the mask
}

// Problem is an error in one field of a rule.
type Problem struct {
	Index   int    // index of the rule
	Field   string // API name of the field; empty: the whole rule
	Code    string
	Message string // the right form
}

type finder struct {
	find *pattern.Pattern
	with []byte
}

// Set is a set of parsed rules. It is safe for concurrent use. A nil Set redacts only secret
// headers.
type Set struct {
	headers  map[string]bool // by canonical names
	paths    []*jsonpath.Path
	patterns []finder
}

// Parse parses rules, and returns a nil Set if there are none. Their patterns must fit into the
// budget. It returns a problem for every bad field.
func Parse(rules []Rule, budget *pattern.Budget) (*Set, []Problem) {
	if len(rules) == 0 {
		return nil, nil
	}
	set := &Set{headers: map[string]bool{}}
	var bad []Problem
	for i, rule := range rules {
		for _, p := range set.add(rule, budget) {
			p.Index = i
			bad = append(bad, p)
		}
	}
	if len(bad) > 0 {
		return nil, bad
	}
	return set, nil
}

func (s *Set) add(r Rule, budget *pattern.Budget) []Problem {
	given := 0
	for _, text := range []string{r.Header, r.JSONPath, r.Pattern} {
		if text != "" {
			given++
		}
	}
	if given != 1 {
		return []Problem{{Code: "invalid_value", Message: "must have exactly one of header, jsonPath and pattern"}}
	}
	var bad []Problem
	if r.Replacement != "" && r.Pattern == "" {
		bad = append(bad, Problem{
			Field:   "replacement",
			Code:    "not_used",
			Message: "must be absent: only what a pattern finds is replaced",
		})
	}
	switch {
	case r.Header != "":
		return append(bad, s.addHeader(r.Header)...)
	case r.JSONPath != "":
		return append(bad, s.addPath(r.JSONPath)...)
	default:
		return append(bad, s.addPattern(r, budget)...)
	}
}

var headerName = regexp.MustCompile("^[0-9A-Za-z!#$%&'*+.^_`|~-]+$")

func (s *Set) addHeader(name string) []Problem {
	if len(name) > 256 || !headerName.MatchString(name) {
		return []Problem{{
			Field:   "header",
			Code:    "header_invalid",
			Message: "must be the name of a header",
		}}
	}
	s.headers[textproto.CanonicalMIMEHeaderKey(name)] = true
	return nil
}

func (s *Set) addPath(text string) []Problem {
	if slices.ContainsFunc(s.paths, func(p *jsonpath.Path) bool { return p.String() == text }) {
		return nil
	}
	path, err := jsonpath.Parse(text)
	if err != nil {
		return []Problem{{
			Field:   "jsonPath",
			Code:    "jsonpath_invalid",
			Message: err.Error(),
		}}
	}
	s.paths = append(s.paths, path)
	return nil
}

func (s *Set) addPattern(r Rule, budget *pattern.Budget) []Problem {
	var bad []Problem
	if len(r.Replacement) > maxReplacement {
		bad = append(bad, Problem{
			Field:   "replacement",
			Code:    "too_long",
			Message: fmt.Sprintf("must be at most %d bytes long", maxReplacement),
		})
	}
	if len(r.Pattern) > pattern.MaxBytes {
		return append(bad, Problem{
			Field:   "pattern",
			Code:    "too_long",
			Message: fmt.Sprintf("must be at most %d bytes long", pattern.MaxBytes),
		})
	}
	find, err := budget.Compile(r.Pattern)
	switch {
	case err != nil:
		return append(bad, Problem{
			Field:   "pattern",
			Code:    "pattern_invalid",
			Message: err.Error(),
		})
	case find.MatchString("", nil):
		return append(bad, Problem{
			Field:   "pattern",
			Code:    "pattern_invalid",
			Message: "must not match the empty text: it would find something everywhere",
		})
	}
	with := Mask
	if r.Replacement != "" {
		with = r.Replacement
	}
	s.patterns = append(s.patterns, finder{find, []byte(with)})
	return bad
}
