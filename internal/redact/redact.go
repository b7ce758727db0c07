// Package redact hides parts of an answer before anything of it is stored or shown: headers, places in a JSON body, and whatever patterns
// find. It is pure and bounded. Where it cannot tell what must be hidden, it hides everything.
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
	// Mask stands in place of what is hidden.
	Mask = auditlog.Mask

	maxReplacement = 255 // bytes
	// edge is how much is hidden where a body was cut and patterns are to be hidden: of what a pattern would have found across the cut,
	// only a part may be there, which it does not find.
	hiddenEdge = 512
)

// Rule is what a user wants hidden: exactly one of a header, a place in a JSON body, and a pattern.
type Rule struct {
	Header      string
	JSONPath    string // RFC 9535
	Pattern     string // RE2
	Replacement string // of what the pattern finds, as it stands; empty: the mask
}

// Problem is what is wrong with one field of a rule.
type Problem struct {
	Index   int    // of the rule
	Field   string // of the rule, by its name in the API; empty: the rule as a whole
	Code    string
	Message string // what would be right
}

type finder struct {
	find *pattern.Pattern
	with []byte
}

// Set is rules that were parsed. It is safe for concurrent use. A nil Set hides only what is always hidden.
type Set struct {
	headers  map[string]bool // by canonical names
	paths    []*jsonpath.Path
	patterns []finder
}

// Parse reads rules, and returns a nil Set where there are none. Their patterns must fit into what is left of the budget. Every field that is
// bad is a problem.
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
		bad = append(bad, Problem{Field: "replacement", Code: "not_used", Message: "must be absent: only what a pattern finds is replaced"})
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
		return []Problem{{Field: "header", Code: "header_invalid", Message: "must be the name of a header"}}
	}
	s.headers[textproto.CanonicalMIMEHeaderKey(name)] = true
	return nil
}

func (s *Set) addPath(text string) []Problem {
	if slices.ContainsFunc(s.paths, func(p *jsonpath.Path) bool { return p.String() == text }) {
		return nil // Once is enough.
	}
	path, err := jsonpath.Parse(text)
	if err != nil {
		return []Problem{{Field: "jsonPath", Code: "jsonpath_invalid", Message: err.Error()}}
	}
	s.paths = append(s.paths, path)
	return nil
}

func (s *Set) addPattern(r Rule, budget *pattern.Budget) []Problem {
	var bad []Problem
	if len(r.Replacement) > maxReplacement {
		bad = append(bad, Problem{Field: "replacement", Code: "too_long", Message: fmt.Sprintf("must be at most %d bytes long", maxReplacement)})
	}
	if len(r.Pattern) > pattern.MaxBytes {
		return append(bad, Problem{Field: "pattern", Code: "too_long", Message: fmt.Sprintf("must be at most %d bytes long", pattern.MaxBytes)})
	}
	find, err := budget.Compile(r.Pattern)
	switch {
	case err != nil:
		return append(bad, Problem{Field: "pattern", Code: "pattern_invalid", Message: err.Error()})
	case find.MatchString("", nil):
		return append(bad, Problem{Field: "pattern", Code: "pattern_invalid", Message: "must not match the empty text: it would find something everywhere"})
	}
	with := Mask
	if r.Replacement != "" {
		with = r.Replacement
	}
	s.patterns = append(s.patterns, finder{find, []byte(with)})
	return bad
}
