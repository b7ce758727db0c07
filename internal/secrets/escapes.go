package secrets

import (
	"bytes"
	"html"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// levels is the maximum depth of escaping. A request that is quoted in an answer is escaped
	// once more by the quotation, and once more by a proxy that wraps the answer.
	levels = 3
	// longestEscape is the maximum length of an escape in bytes: a character reference with its
	// semicolon, or \uXXXX twice.
	longestEscape = 12
)

// escapes decodes one kind of escape sequences. Encoders differ in the characters that they escape,
// besides letters and digits, and in the case of digits. Decoding covers all of them.
type escapes struct {
	mark byte
	// read appends the decoded form of the escape at its mark. size is the length of the escape; 0:
	// it is none.
	read func(to, text []byte) (plain []byte, size int)
	// begun reports whether the text, from a mark to its end, is an incomplete escape.
	begun func(text []byte) bool
}

// dialect is a set of escape kinds that are decoded together.
type dialect []escapes

// dialects returns the sets to try: all kinds at once, and each kind alone. Decoding all at once
// covers nested kinds, because their order makes no difference to a value without text that looks
// like an escape. The single kinds cover the other values.
func dialects() []dialect {
	all := mixed()
	return []dialect{all, all[:1], all[1:2], all[2:]}
}

func mixed() dialect {
	return dialect{{'\\', readJSON, begunJSON}, {'%', readPercent, begunPercent}, {'&', readEntity, begunEntity}}
}

// of returns the escape kind of a mark, or nil.
func (d dialect) of(mark byte) *escapes {
	for i := range d {
		if d[i].mark == mark {
			return &d[i]
		}
	}
	return nil
}

// undo returns a view with one more level of escapes decoded, and with a space for each plus, as in
// forms. undone is false if there is no escape and no incomplete one at the end.
func (d dialect) undo(v view) (out view, undone bool) {
	text := v.plain[:v.whole]
	out = view{
		plain: make([]byte, 0, len(text)),
		from:  make([]int32, 0, len(text)+1),
		whole: -1,
	}
	for at := 0; at < len(text); {
		had, size := len(out.plain), 0
		if e := d.of(text[at]); e != nil {
			if out.whole < 0 && len(text)-at < longestEscape && e.begun(text[at:]) {
				out.whole = had
			}
			out.plain, size = e.read(out.plain, text[at:])
			undone = undone || size > 0
		}
		if size == 0 {
			out.plain, size = append(out.plain, text[at]), 1
		}
		for i := had; i < len(out.plain); i++ {
			if out.plain[i] == '+' {
				out.plain[i] = ' '
			}
			out.from = append(out.from, v.origin(at, at).begin)
		}
		at += size
	}
	out.from = append(out.from, v.origin(len(v.plain), len(v.plain)).end)
	if out.whole < 0 {
		out.whole = len(out.plain)
	}
	return out, undone || out.whole < len(out.plain)
}

// search holds the values and the cuts to look for.
type search struct {
	values []escapable
	at     cuts
}

// find appends the spans of escaped values. It decodes one level after the other, each in time
// linear in the text.
func (d dialect) find(found []span, text []byte, what search) []span {
	if !d.speaks(text) {
		return found
	}
	depth := 0
	for _, value := range what.values {
		depth = max(depth, levels-1+len(value.plain))
	}
	for v, more := wholly(text), true; more && depth > 0; depth-- {
		v, more = d.undo(v)
		for _, value := range what.values {
			for _, plain := range value.plain {
				found = v.findCut(v.find(found, plain), plain, what.at)
			}
		}
	}
	return found
}

// speaks reports whether a text may hold escapes of a dialect.
func (d dialect) speaks(text []byte) bool {
	if len(d) > 1 && bytes.IndexByte(text, '+') >= 0 {
		return true
	}
	for _, e := range d {
		if bytes.IndexByte(text, e.mark) >= 0 {
			return true
		}
	}
	return false
}

// escapable is a value that encoders may escape.
type escapable struct {
	value string
	// plain holds the forms of the value in decoded views: with a space for each plus, and with the
	// parts decoded that look like escapes themselves, level by level.
	plain [][]byte
	// core, begin and end are parts of the value, of its beginning and of its end, that no encoder
	// escapes, of minMasked bytes.
	core, begin, end []byte
}

func newEscapable(value string) escapable {
	e := escapable{
		value: value,
		plain: [][]byte{[]byte(strings.ReplaceAll(value, "+", " "))},
		core:  []byte(core(value)),
		begin: []byte(core(value[:minMasked])),
		end:   []byte(core(value[len(value)-minMasked:])),
	}
	for all := mixed(); all.speaks(e.plain[0]) && len(e.plain) <= levels; {
		last := e.plain[len(e.plain)-1]
		v, _ := all.undo(wholly(last))
		if bytes.Equal(v.plain, last) || len(v.plain) < minMasked {
			break
		}
		e.plain = append(e.plain, v.plain)
	}
	return e
}

// core returns the longest part of a value that no encoder escapes: ASCII letters and digits, and
// the unreserved characters of URLs. It may be empty.
func core(value string) string {
	longest := ""
	for part := range strings.FieldsFuncSeq(value, func(r rune) bool {
		plain := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_' || r == '.' || r == '~'
		return !plain
	}) {
		if len(part) > len(longest) {
			longest = part
		}
	}
	return longest
}

func readJSON(to, text []byte) ([]byte, int) {
	if len(text) < 2 {
		return to, 0
	}
	if at := strings.IndexByte(`"\/bfnrt`, text[1]); at >= 0 {
		return append(to, "\"\\/\b\f\n\r\t"[at]), 2
	}
	r, ok := readUnit(text)
	if !ok {
		return to, 0
	}
	if utf16.IsSurrogate(r) {
		low, _ := readUnit(text[6:])
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return utf8.AppendRune(to, pair), 12
		}
	}
	return utf8.AppendRune(to, r), 6
}

// readUnit decodes \uXXXX.
func readUnit(text []byte) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	return readHex(text[2:6])
}

// begunJSON also reports the first half of a surrogate pair as incomplete.
func begunJSON(text []byte) bool {
	if r, ok := readUnit(text); ok {
		text = text[6:]
		return utf16.IsSurrogate(r) && (len(text) == 0 || text[0] == '\\' && begunUnit(text))
	}
	return begunUnit(text)
}

func begunUnit(text []byte) bool {
	if len(text) < 2 {
		return true
	}
	_, ok := readHex(text[2:])
	return text[1] == 'u' && ok && len(text) < 6
}

// readHex parses hexadecimal digits. The number is 0 without digits.
func readHex(digits []byte) (n rune, ok bool) {
	for _, c := range digits {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		n = n<<4 | rune(c)
	}
	return n, true
}

func readPercent(to, text []byte) ([]byte, int) {
	if len(text) < 3 {
		return to, 0
	}
	n, ok := readHex(text[1:3])
	if !ok {
		return to, 0
	}
	return append(to, byte(n)), 3
}

func begunPercent(text []byte) bool {
	_, ok := readHex(text[1:])
	return ok && len(text) < 3
}

func readEntity(to, text []byte) ([]byte, int) {
	end := bytes.IndexByte(text[:min(len(text), longestEscape)], ';')
	if end < 0 || bytes.IndexByte(text[1:end], '&') >= 0 {
		return to, 0
	}
	written := string(text[:end+1])
	raw := html.UnescapeString(written)
	if raw == written {
		return to, 0
	}
	return append(to, raw...), end + 1
}

func begunEntity(text []byte) bool {
	for _, c := range text[1:] {
		if plain := c == '#' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'; !plain {
			return false
		}
	}
	return true
}
