package redact

import (
	"bytes"
	"unicode/utf8"

	"rubato/internal/auditlog"
	"rubato/internal/budget"
	"rubato/internal/jsonpath"
)

// Header returns the values of the headers of an answer as they may be shown. Those whose names tell of secrets are hidden always, those that
// rules name as well, and in the others what patterns find. It is a copy.
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

// Value returns the first value of a header, by its canonical name, as it may be shown; empty where there is none.
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

// hides reports whether a header, by its canonical name, is hidden.
func (s *Set) hides(name string) bool {
	return auditlog.Secret(name) || s != nil && s.headers[name] // WWW-Authenticate, Set-Cookie and the like tell of secrets by their names.
}

// Text returns a text of an answer, such as an error that quotes it, without what patterns find; nothing of it where that cannot be told.
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

// Body returns what may be stored of a body: its places in JSON and what patterns find are hidden. cut says that there was more of it: then its
// end is hidden where there are patterns. Where there are rules about places and the body cannot be read as JSON, because it is none or was
// cut, all of it is hidden; so it is where the budget does not allow to apply all rules. JSON in which places were hidden comes back rewritten:
// members by name, without spaces. The result may be longer than the body by less than it has bytes, and is the body itself where nothing is to
// be hidden.
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
			out, ok = s.replacePatterns(out, b, 2*len(body)+maxReplacement) // What was written in escapes reads as the patterns expect by now.
		}
	}
	if !ok {
		return []byte(Mask)
	}
	return out
}

// Tail returns what may be stored of the end of a body whose middle is missing.
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

// places hides the places in a JSON body.
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

// scrub replaces what the patterns find, one pattern after the other. Where replacements would make the text longer than limit, what is found
// is left out instead. Where finding it all would take too long, ok is false, and the text must not be shown.
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

// hideEnd hides the end of a text.
func hideEnd(text []byte) []byte {
	at := max(len(text)-hiddenEdge, 0)
	for at > 0 && !utf8.RuneStart(text[at]) {
		at--
	}
	return append(bytes.Clone(text[:at]), Mask...)
}

// hideBegin hides the beginning of a text.
func hideBegin(text []byte) []byte {
	at := min(hiddenEdge, len(text))
	for at < len(text) && !utf8.RuneStart(text[at]) {
		at++
	}
	return append([]byte(Mask), text[at:]...)
}
