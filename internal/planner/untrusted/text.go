package untrusted

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxText is the number of bytes of a text that are processed. It is far more than is ever shown,
// and small enough to process quickly.
const MaxText = 64 << 10

// Clean returns a text that is safe to show: valid UTF-8, JSON in compact form without escapes,
// without invisible characters and secrets, and at most limit bytes, cut between characters. cut
// reports whether something was cut off. Secrets are redacted before the cut, because half a secret
// would not be recognized.
//
// Of a text longer than [MaxText] bytes only that many are processed.
func Clean(text string, limit int) (clean string, cut bool) {
	if len(text) > MaxText {
		text, cut = text[:MaxText], true
		text = text[:strings.LastIndexAny(text, " \t\r\n,;&\"'")+1] // drop what may be half a secret
	}
	clean = Redact(Visible(canonical(text)))
	if len(clean) <= limit {
		return clean, cut
	}
	return truncate(clean, limit), true
}

// truncate returns at most limit bytes of a text, cut between characters.
func truncate(text string, limit int) string {
	end := max(min(len(text), limit), 0)
	for end > 0 && end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// Visible removes invisible characters: invalid UTF-8, control and format characters (zero width,
// direction, tags), variation selectors, private use and unassigned characters. Each run of
// whitespace becomes one space.
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

// hidden reports whether r is invisible.
func hidden(r rune) bool {
	switch {
	case r == utf8.RuneError, !unicode.IsPrint(r), unicode.Is(unicode.Variation_Selector, r):
		return true
	default: // letters without a glyph, which can hide a message
		return r == 0x115f || r == 0x1160 || r == 0x3164 || r == 0xffa0 || r == 0x2800 || r == 0x034f || r == 0x17b4 || r == 0x17b5
	}
}

// escape finds \u escapes.
var escape = regexp.MustCompile(`\\u[0-9a-fA-F]{4}`)

// canonical returns JSON in compact form with secret members redacted, and other text with its
// escapes resolved. Otherwise a name like p\u0061ssword would not be recognized.
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

// JSON decodes a JSON text of at most [MaxText] bytes; is reports whether it is one. Values of
// members with secret names become [Redacted], and invisible characters are removed. Other texts
// may still hold secrets, so each has to pass [Redact]. Numbers are [json.Number].
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
	encoder.SetEscapeHTML(false) // the caller that quotes the text escapes it
	if err := encoder.Encode(value); err != nil {
		return ""
	}
	return strings.TrimSuffix(b.String(), "\n")
}
