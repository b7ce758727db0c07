package untrusted

import (
	"regexp"
	"strconv"
	"strings"
)

// tag is the start tag of an XML or HTML element.
type tag struct {
	// bracket is "<", or its escape in text that contains markup.
	bracket    string
	name       string // lower case
	attributes string // lower case
	from       int    // start of the attributes
	end        int    // start of the content
	empty      bool   // self-closing
}

// tagAt returns the tag that begins at a position of a lower-case text, if there is one.
func tagAt(lower string, at int) (tag, bool) {
	t := tag{bracket: "<"}
	last := ">"
	if lower[at] == '&' {
		t.bracket, last = "&lt;", "&gt;"
	}
	rest, opens := strings.CutPrefix(lower[at:], t.bracket)
	length := skip(rest, 0, len(rest), isNameByte)
	if !opens || length == 0 {
		return t, false
	}
	// If another tag follows before this one ends, only its name is read: it is plain text, or was
	// cut.
	inside, _, _ := strings.Cut(rest, t.bracket)
	inside, _, ends := strings.Cut(inside, last)
	t.from = at + len(t.bracket) + length
	t.end = at + len(t.bracket) + len(inside) + len(last)
	inside, t.empty = strings.CutSuffix(inside, "/")
	t.name, t.attributes = rest[:length], inside[min(length, len(inside)):]
	return t, ends
}

// isNameByte reports whether c may be part of an element's name, including non-ASCII bytes.
func isNameByte(c byte) bool {
	return alphanumeric(c) || c == '_' || c == '-' || c == '.' || c == ':' || c >= 0x80
}

// contentEnd returns the end of an element's content: its end tag, or the end of a truncated text.
func (t tag) contentEnd(lower string) int {
	for at, depth := t.end, 1; ; {
		next := strings.Index(lower[at:], t.bracket)
		if next < 0 {
			return len(lower)
		}
		begin := at + next
		at = begin + len(t.bracket)
		inner, opens := tagAt(lower, begin)
		switch name, closes := strings.CutPrefix(lower[at:], "/"); {
		case closes && name[:skip(name, 0, len(name), isNameByte)] == t.name:
			if depth--; depth == 0 {
				return begin
			}
		case opens && inner.name == t.name && !inner.empty:
			depth++
		case strings.HasPrefix(lower[at:], "![cdata["):
			length := strings.Index(lower[at:], "]]")
			if length < 0 {
				return len(lower)
			}
			at += length
		}
	}
}

var (
	// namePair finds the name in a pair of a name and a value, as in settings, headers and forms.
	namePair = regexp.MustCompile(`[^\w](?:name|key)\s*=\s*\\*["']([^"'\\]*)`)
	// valueAttribute finds the start of its value if that is an attribute, too.
	valueAttribute = regexp.MustCompile(`[^\w](?:value|content)\s*=\s*(\\*)(["'])`)
)

// secret returns the range of an element's secret; an empty range if there is none.
func (t tag) secret(lower string) (from, to int) {
	secret, numbers := isSecretName(t.name)
	if pair := namePair.FindStringSubmatch(t.attributes); pair != nil && !secret {
		if secret, numbers = isSecretName(pair[1]); secret {
			if at := valueAttribute.FindStringSubmatchIndex(t.attributes); at != nil {
				return t.from + at[1], t.from + closing(t.attributes, at[1], t.attributes[at[4]], at[2] < at[3])
			}
			secret = t.name != "input" && t.name != "meta" && t.name != "param" // void elements without content and end tag
		}
	}
	if !secret || t.empty {
		return 0, 0
	}
	to = t.contentEnd(lower)
	content := strings.TrimSpace(lower[t.end:to])
	if _, err := strconv.ParseFloat(content, 64); content == "" || literal(content) || err == nil && !numbers {
		return 0, 0
	}
	return t.end, to
}

// redactElements redacts the content of XML elements with secret names, and values in pairs with
// such names.
func redactElements(text string) string {
	lower := lowered(text)
	var b strings.Builder
	done := 0
	for i := 0; i < len(text); {
		if text[i] != '<' && text[i] != '&' {
			i++
			continue
		}
		t, is := tagAt(lower, i)
		if !is {
			i++
			continue
		}
		i = t.end
		if from, to := t.secret(lower); from < to {
			b.WriteString(text[done:from] + Redacted)
			done, i = to, to
		}
	}
	b.WriteString(text[done:])
	return b.String()
}
