package secrets

import (
	"bytes"
	"slices"
	"strings"
)

const (
	// minMasked is the minimum length of a masked value in bytes. Shorter values would match by
	// chance everywhere.
	minMasked = 8
	// masked replaces a value.
	masked = "[secret]"
)

// Mask hides secret values in the answers of targets, because a target may echo its request. It is
// immutable and safe for concurrent use. A nil Mask hides nothing.
type Mask struct {
	// values holds every form that Go's encoders write, longest first.
	values [][]byte
	// escaped holds the values that other encoders may write with escapes.
	escaped []escapable
}

// NewMask returns a mask of values in the encoded forms in which they may come back. The forms are
// plain text, JSON, URL, form, XML, HTML and base64, whichever characters besides letters and
// digits are escaped, up to three levels deep in any order. Base64 may encode a longer text that
// contains one of these forms. Values of less than 8 bytes are not masked. NewMask returns nil if
// no value is left.
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

// NewEraser returns a replacer that hides values of any length. The result may be unreadable,
// because short values match by chance.
func NewEraser(values ...string) *strings.Replacer {
	forms := formsOf(1, values)
	pairs := make([]string, 0, 2*len(forms))
	for _, form := range forms {
		pairs = append(pairs, form, masked)
	}
	return strings.NewReplacer(pairs...)
}

// Text returns a text with the values hidden. Where the text or a quotation in it was cut, it also
// hides a prefix of a value of at least 8 bytes.
func (m *Mask) Text(text string) string {
	if m == nil {
		return text
	}
	return string(m.hide([]byte(text), cutAtEnd|cutInQuotes))
}

// Body returns a body with the values hidden, or the body itself if it holds none. cut means that
// the body continues after its end; then a prefix of a value there, of at least 8 bytes, is hidden
// too.
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

// Tail is [Mask.Body] for the end of a body without its middle. It also hides a suffix of a
// value of at least 8 bytes at the beginning.
func (m *Mask) Tail(tail []byte) []byte {
	if m == nil {
		return tail
	}
	return m.hide(tail, cutAtBegin|cutAtEnd)
}

// hide returns a text with the values and their cut parts hidden, or the text itself if it holds
// none.
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
	for _, value := range m.values { // After the search above, because an escaped value may look like a cut one.
		found = wholly(text).findCut(found, value, at)
	}
	return without(text, found)
}

// suspects returns the values that a text may hold with escapes. This filter is cheap; decoding
// escapes is slow, and few answers echo the request.
func (m *Mask) suspects(text []byte, at cuts) (here []escapable) {
	for _, e := range m.escaped {
		reach := min(len(text), widest*len(e.value)) // the maximum length of a cut value
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

// widest is the maximum number of bytes that a byte of a value takes after all levels of escaping.
const widest = 3 * longestEscape
