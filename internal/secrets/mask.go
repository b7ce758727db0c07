package secrets

import (
	"bytes"
	"slices"
	"strings"
)

const (
	// minMasked is how long a value must be to be masked, in bytes: a shorter one would be found everywhere by chance.
	minMasked = 8
	// masked stands in place of a value.
	masked = "[secret]"
)

// Mask hides values in what comes back from a target, which may echo what it was sent. It never changes and is safe for concurrent
// use. A nil Mask hides nothing.
type Mask struct {
	values  [][]byte    // in every form that Go writes, the longest first
	escaped []escapable // those of them that others may write with escapes
}

// NewMask returns a mask of values, each in the forms in which it may come back: as it is, and as JSON, URLs, forms, XML, HTML and base64
// write it, whichever characters they escape beside letters and digits, up to three times over in any order. Base64 may be of a longer text,
// in which the value stands as it is or as one of the others writes it. Values of less than 8 bytes are not masked. It returns nil where
// nothing is left to mask.
func NewMask(values ...string) *Mask {
	list := formsOf(minMasked, values)
	if len(list) == 0 {
		return nil
	}
	m := &Mask{values: make([][]byte, len(list))}
	for i, form := range list {
		m.values[i] = []byte(form)
	}
	for _, value := range values {
		if len(value) < minMasked {
			continue
		}
		for _, form := range append(append(encoded(value), value, strings.TrimSpace(value)), within(value)...) {
			known := slices.ContainsFunc(m.escaped, func(e escapable) bool { return e.value == form })
			if len(form) >= minMasked && !known && core(form) != form {
				m.escaped = append(m.escaped, newEscapable(form))
			}
		}
	}
	return m
}

// NewEraser returns what hides values of any length in what was made of them. What it leaves may be unreadable where a value is short.
func NewEraser(values ...string) *strings.Replacer {
	forms := formsOf(1, values)
	pairs := make([]string, 0, 2*len(forms))
	for _, form := range forms {
		pairs = append(pairs, form, masked)
	}
	return strings.NewReplacer(pairs...)
}

// Text returns a text without the values, and without the begin of one, of at least 8 bytes, where the text or a quotation in it was cut.
func (m *Mask) Text(text string) string {
	if m == nil {
		return text
	}
	return string(m.hide([]byte(text), cutAtEnd|cutInQuotes))
}

// Body returns a body without the values, the same one where it holds none. cut says that the body goes on after its end: then the
// begin of a value there, of at least 8 bytes, is hidden too.
func (m *Mask) Body(body []byte, cut bool) []byte {
	switch {
	case m == nil:
		return body
	case cut:
		return m.hide(body, cutAtEnd)
	default:
		return m.hide(body, 0)
	}
}

// Tail is [Mask.Body] for the end of a body that is cut and whose middle is missing: the end of a value at its beginning, of at least 8
// bytes, is hidden too.
func (m *Mask) Tail(tail []byte) []byte {
	if m == nil {
		return tail
	}
	return m.hide(tail, cutAtBegin|cutAtEnd)
}

// hide returns a text without the values, and without what cuts left of them; the same one where it holds none.
func (m *Mask) hide(text []byte, at cuts) []byte {
	var found []span
	for _, value := range m.values {
		found = wholly(text).find(found, value)
	}
	text, found = without(text, found), nil
	if here := m.suspects(text, at); len(here) > 0 {
		for _, d := range dialects() {
			found = d.find(found, text, search{here, at})
		}
	}
	for _, value := range m.values { // With what is found above: a value that is escaped may look like one that is cut.
		found = wholly(text).findCut(found, value, at)
	}
	return without(text, found)
}

// suspects returns the values that a text may hold with escapes. To undo escapes is slow, and few answers hold what was sent.
func (m *Mask) suspects(text []byte, at cuts) (here []escapable) {
	for _, e := range m.escaped {
		reach := min(len(text), widest*len(e.value)) // of a cut
		begins := text[len(text)-reach:]
		if at&cutInQuotes != 0 {
			begins = text
		}
		if bytes.Contains(text, e.core) ||
			at&(cutAtEnd|cutInQuotes) != 0 && bytes.Contains(begins, e.begin) || at&cutAtBegin != 0 && bytes.Contains(text[:reach], e.end) {
			here = append(here, e)
		}
	}
	return here
}

// widest is how many bytes a byte of a value may take when it is escaped as often as is undone.
const widest = 3 * longestEscape
