package untrusted

import (
	"regexp"
	"strconv"
	"strings"
)

// tag is the begin of an element of XML or HTML.
type tag struct {
	bracket    string // what opens it: one, or what stands for one in text that holds markup
	name       string // in lower case
	attributes string // likewise
	from       int    // where they begin
	end        int    // where its content begins
	empty      bool   // it has no content
}

// tagAt returns the tag that begins at a place of a text in lower case, if one does.
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
	// Of one that another one follows before it ends, only the name was read: it is text, or was cut.
	inside, _, _ := strings.Cut(rest, t.bracket)
	inside, _, ends := strings.Cut(inside, last)
	t.from = at + len(t.bracket) + length
	t.end = at + len(t.bracket) + len(inside) + len(last)
	inside, t.empty = strings.CutSuffix(inside, "/")
	t.name, t.attributes = rest[:length], inside[min(length, len(inside)):]
	return t, ends
}

// named reports whether c may be part of the name of an element, of a text that is not ASCII as well.
func isNameByte(c byte) bool {
	return alphanumeric(c) || c == '_' || c == '-' || c == '.' || c == ':' || c >= 0x80
}

// contentEnd returns where the content of an element ends: before the tag that closes it, or at the end of a text that was cut.
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
	// keyed finds the name in a pair of a name and a value, as lists of settings, headers and fields of forms write them.
	namePair = regexp.MustCompile(`[^\w](?:name|key)\s*=\s*\\*["']([^"'\\]*)`)
	// valued finds the begin of its value, where that is an attribute too.
	valueAttribute = regexp.MustCompile(`[^\w](?:value|content)\s*=\s*(\\*)(["'])`)
)

// secret returns where what is secret of an element begins and ends; nothing where it has nothing secret.
func (t tag) secret(lower string) (from, to int) {
	secret, numbers := isSecretName(t.name)
	if pair := namePair.FindStringSubmatch(t.attributes); pair != nil && !secret {
		if secret, numbers = isSecretName(pair[1]); secret {
			if at := valueAttribute.FindStringSubmatchIndex(t.attributes); at != nil {
				return t.from + at[1], t.from + closing(t.attributes, at[1], t.attributes[at[4]], at[2] < at[3])
			}
			secret = t.name != "input" && t.name != "meta" && t.name != "param" // These have no content and are not closed.
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

// withoutElements takes out the content of XML elements with telling names, and the value beside a telling name.
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
