package secrets

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"html"
	"net/url"
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
	values  []string    // in every form that Go writes, the longest first
	escaped []escapable // those of them that others may write with escapes
}

// NewMask returns a mask of values, each in the forms in which it may come back: as it is, and as JSON, URLs, forms, XML, HTML and base64
// write it, whichever characters they escape beside letters and digits. Values of less than 8 bytes are not masked. It returns nil where
// nothing is left to mask.
func NewMask(values ...string) *Mask {
	m := &Mask{values: formsOf(minMasked, values)}
	if len(m.values) == 0 {
		return nil
	}
	for _, value := range values {
		for _, form := range append(encoded(value), value, strings.TrimSpace(value)) {
			if e := (escapable{form, core(form)}); len(value) >= minMasked && len(form) >= minMasked && e.core != form && !slices.Contains(m.escaped, e) {
				m.escaped = append(m.escaped, e)
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

// formsOf returns the forms of values that are long enough, the longest first.
func formsOf(shortest int, values []string) []string {
	var list []string
	for _, value := range values {
		if len(value) < shortest {
			continue
		}
		for _, form := range forms(value) {
			if len(form) >= shortest && !slices.Contains(list, form) {
				list = append(list, form)
			}
		}
	}
	slices.SortFunc(list, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return list
}

func forms(value string) []string {
	quoted, _ := json.Marshal(value) // A text cannot fail.
	escaped := url.QueryEscape(value)
	return append(encoded(value),
		value, strings.TrimSpace(value), string(quoted[1:len(quoted)-1]), plainJSON(value), marked(value), html.EscapeString(value),
		escaped, strings.ReplaceAll(escaped, "+", "%20"), url.PathEscape(value))
}

// encoded returns a value in every kind of base64.
func encoded(value string) []string {
	return []string{
		base64.StdEncoding.EncodeToString([]byte(value)), base64.RawStdEncoding.EncodeToString([]byte(value)),
		base64.URLEncoding.EncodeToString([]byte(value)), base64.RawURLEncoding.EncodeToString([]byte(value)),
	}
}

// plainJSON returns a value in a JSON string as most write it: with what is markup in HTML as it is.
func plainJSON(value string) string {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	_ = e.Encode(value) // A text cannot fail.
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(out.String(), "\n"), `"`), `"`)
}

// marked returns a value as XML writes it.
func marked(value string) string {
	var out bytes.Buffer
	_ = xml.EscapeText(&out, []byte(value)) // A buffer cannot fail.
	return out.String()
}

// Text returns a text without the values, and without the begin of one, of at least 8 bytes, where the text or a quotation in it was cut.
func (m *Mask) Text(text string) string {
	if m == nil {
		return text
	}
	for _, value := range m.values {
		text = strings.ReplaceAll(text, value, masked)
	}
	text = string(m.unescaped([]byte(text)))
	for _, value := range m.values {
		if !strings.Contains(text, value[:minMasked]) {
			continue
		}
		for n := len(value) - 1; n >= minMasked; n-- {
			text = strings.ReplaceAll(text, value[:n]+`"`, masked+`"`)
			if rest, cut := strings.CutSuffix(text, value[:n]); cut {
				text = rest + masked
			}
		}
	}
	return text
}

// Body returns a body without the values, the same one where it holds none. cut says that the body goes on after its end: then the
// begin of a value there, of at least 8 bytes, is hidden too.
func (m *Mask) Body(body []byte, cut bool) []byte {
	if m == nil {
		return body
	}
	for _, value := range m.values {
		if bytes.Contains(body, []byte(value)) {
			body = bytes.ReplaceAll(body, []byte(value), []byte(masked))
		}
	}
	body = m.unescaped(body)
	if !cut {
		return body
	}
	for _, value := range m.values {
		for n := min(len(value)-1, len(body)); n >= minMasked; n-- {
			if bytes.HasSuffix(body, []byte(value[:n])) {
				return append(slices.Clip(body[:len(body)-n]), masked...)
			}
		}
	}
	return body
}

// unescaped returns a text without the values that are written in it with escapes.
func (m *Mask) unescaped(text []byte) []byte {
	var here []string // To undo escapes is slow, and few answers hold what was sent.
	for _, e := range m.escaped {
		if bytes.Contains(text, []byte(e.core)) {
			here = append(here, e.value)
		}
	}
	if len(here) == 0 {
		return text
	}
	for _, way := range ways() {
		text = way.hide(text, here)
	}
	return text
}

// Tail is [Mask.Body] for the end of a body whose middle is missing: the end of a value at its beginning, of at least 8 bytes, is hidden
// too.
func (m *Mask) Tail(tail []byte) []byte {
	if m == nil {
		return tail
	}
	for _, value := range m.values {
		for n := min(len(value)-1, len(tail)); n >= minMasked; n-- {
			if bytes.HasPrefix(tail, []byte(value[len(value)-n:])) {
				return m.Body(append([]byte(masked), tail[n:]...), false)
			}
		}
	}
	return m.Body(tail, false)
}
