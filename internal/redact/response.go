package redact

import (
	"bytes"
	"unicode/utf8"

	"rubato/internal/auditlog"
	"rubato/internal/budget"
	"rubato/internal/jsonpath"
)

// Header returns a redacted copy of response headers. Headers with secret names and those in rules
// are masked completely; in others the matches of patterns are replaced.
func (s *Set) Header(header map[string][]string, b *budget.Budget) map[string][]string {
	shown := make(map[string][]string, len(header))
	for name, values := range header {
		copied := make([]string, len(values))
		for i, value := range values {
			if copied[i] = Mask; !s.hides(name) {
				copied[i] = s.Text(value, b)
			}
		}
		shown[name] = copied
	}
	return shown
}

// Value returns the redacted first value of a header by its canonical name; empty if there is none.
func (s *Set) Value(header map[string][]string, name string, b *budget.Budget) string {
	values := header[name]
	switch {
	case len(values) == 0:
		return ""
	case s.hides(name):
		return Mask
	default:
		return s.Text(values[0], b)
	}
}

// hides reports whether a header is masked completely.
func (s *Set) hides(name string) bool {
	return auditlog.Secret(name) || s != nil && s.headers[name] // includes WWW-Authenticate, Set-Cookie and similar
}

// Text redacts the patterns in a text of the response, such as an error that quotes it. If that
// fails, it returns the mask.
func (s *Set) Text(text string, b *budget.Budget) string {
	if s == nil || len(s.patterns) == 0 {
		return text
	}
	out, ok := s.replacePatterns([]byte(text), b, len(text)+maxReplacement)
	if !ok {
		return Mask
	}
	return string(out)
}

// Body returns the body as it may be stored. cut reports that the body is truncated; then its end
// is redacted if there are patterns. The whole body is redacted if there are JSONPath rules and it
// is truncated or no JSON, or if the budget does not suffice. Redacted JSON is encoded anew:
// members sorted by name, without spaces. The result is less than twice as long, and is the body
// itself if no rule applies.
func (s *Set) Body(body []byte, cut bool, b *budget.Budget) []byte {
	if s == nil || len(body) == 0 || len(s.paths)+len(s.patterns) == 0 {
		return body
	}
	out := body
	if cut && len(s.patterns) > 0 {
		out = hideEnd(out)
	}
	out, ok := s.replacePatterns(out, b, 2*len(body)+maxReplacement)
	if ok && len(s.paths) > 0 {
		if out, ok = s.hidePaths(out, cut, b); ok {
			out, ok = s.replacePatterns(out, b, 2*len(body)+maxReplacement) // again, because escapes are resolved now
		}
	}
	if !ok {
		return []byte(Mask)
	}
	return out
}

// Tail returns the tail of a body with a missing middle as it may be stored.
func (s *Set) Tail(tail []byte, b *budget.Budget) []byte {
	switch {
	case s == nil || len(tail) == 0:
		return tail
	case len(s.paths) > 0:
		return []byte(Mask)
	case len(s.patterns) == 0:
		return tail
	default:
		if out, ok := s.replacePatterns(hideBegin(tail), b, 2*len(tail)+maxReplacement); ok {
			return out
		}
		return []byte(Mask)
	}
}

// hidePaths redacts the locations of the JSONPath rules in a JSON body.
func (s *Set) hidePaths(body []byte, cut bool, b *budget.Budget) (out []byte, ok bool) {
	if cut {
		return nil, false
	}
	doc, err := jsonpath.Read(body, b)
	if err != nil {
		return nil, false
	}
	for _, path := range s.paths {
		if _, err := path.Replace(doc, b, Mask); err != nil {
			return nil, false
		}
	}
	out, err = doc.Bytes()
	return out, err == nil
}

// replacePatterns replaces the matches of each pattern in turn. If replacements would exceed limit,
// matches are removed instead. If the budget does not suffice, ok is false and the text must not be
// shown.
func (s *Set) replacePatterns(text []byte, b *budget.Budget, limit int) (out []byte, ok bool) {
	for _, p := range s.patterns {
		room := limit - len(text)
		text, ok = p.find.Replace(text, b, func(found []byte) []byte {
			if grown := len(p.with) - len(found); grown <= room {
				room -= grown
				return p.with
			}
			room += len(found)
			return nil
		})
		if !ok {
			return nil, false
		}
	}
	return text, true
}

// hideEnd redacts the end of a text.
func hideEnd(text []byte) []byte {
	at := max(len(text)-hiddenEdge, 0)
	for at > 0 && !utf8.RuneStart(text[at]) {
		at--
	}
	return append(bytes.Clone(text[:at]), Mask...)
}

// hideBegin redacts the beginning of a text.
func hideBegin(text []byte) []byte {
	at := min(hiddenEdge, len(text))
	for at < len(text) && !utf8.RuneStart(text[at]) {
		at++
	}
	return append([]byte(Mask), text[at:]...)
}
