package untrusted

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxText is how much of a text is looked at, in bytes. It is far more than anybody is shown, and little enough to be read quickly.
const MaxText = 64 << 10

// Clean returns text as it may be shown: JSON without its whitespace and escapes, valid UTF-8, no character that is not seen, no
// secret, and at most limit bytes, cut between characters. It reports whether something was cut off. Secrets are taken out before the
// cut, so no half of one stays.
//
// Of a text of more than [MaxText] bytes only that much is looked at.
func Clean(text string, limit int) (clean string, cut bool) {
	if len(text) > MaxText {
		text, cut = text[:MaxText], true
		text = text[:strings.LastIndexAny(text, " \t\r\n,;&\"'")+1] // What may be half a secret goes.
	}
	clean = Redact(Visible(canonical(text)))
	if len(clean) <= limit {
		return clean, cut
	}
	return truncate(clean, limit), true
}

// beginning returns at most limit bytes of a text, cut between characters.
func truncate(text string, limit int) string {
	end := max(min(len(text), limit), 0)
	for end > 0 && end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// Visible returns text without what is not seen: bytes that are no UTF-8, control and format characters (zero widths, directions,
// tags), variation selectors, private use and unassigned ones. Line ends and tabs become spaces, several in a row one.
func Visible(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	space := false
	for _, r := range text {
		switch {
		case unicode.IsSpace(r):
			space = true
		case hidden(r):
		default:
			if space && b.Len() > 0 {
				b.WriteByte(' ')
			}
			space = false
			b.WriteRune(r)
		}
	}
	return b.String()
}

// hidden reports whether nobody sees r.
func hidden(r rune) bool {
	switch {
	case r == utf8.RuneError, !unicode.IsPrint(r), unicode.Is(unicode.Variation_Selector, r):
		return true
	default: // Letters that are drawn as nothing, which carry messages past people.
		return r == 0x115f || r == 0x1160 || r == 0x3164 || r == 0xffa0 || r == 0x2800 || r == 0x034f || r == 0x17b4 || r == 0x17b5
	}
}

// escape finds characters that a text spells by their number.
var escape = regexp.MustCompile(`\\u[0-9a-fA-F]{4}`)

// canonical returns JSON in the shortest form that means the same, with secret members taken out, and other text with its escapes
// resolved: a name like p\u0061ssword must not pass for another one.
func canonical(text string) string {
	if value, is := decoded(text); is {
		return encode(redactMembers(value))
	}
	return escape.ReplaceAllStringFunc(text, func(s string) string {
		n, err := strconv.ParseUint(s[2:], 16, 16)
		if err != nil || n == '"' || n == '\\' || n >= 0xd800 && n < 0xe000 {
			return s
		}
		return string(rune(n))
	})
}

// JSON returns what a text of JSON says, with what stands under telling names replaced by [Redacted] and nothing unseen in its texts;
// texts may still hold secrets by their looks, so each of them has to pass [Redact]. Numbers are [json.Number]. It reports whether the
// text is JSON, of at most [MaxText] bytes.
func JSON(text string) (value any, is bool) {
	if len(text) > MaxText {
		return nil, false
	}
	if value, is = decoded(text); !is {
		return nil, false
	}
	return redactMembers(value), true
}

func decoded(text string) (value any, is bool) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, false
	}
	return value, !decoder.More()
}

func encode(value any) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false) // Who quotes the text escapes it once.
	if err := encoder.Encode(value); err != nil {
		return ""
	}
	return strings.TrimSuffix(b.String(), "\n")
}
