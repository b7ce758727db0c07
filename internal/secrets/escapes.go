package secrets

import (
	"bytes"
	"cmp"
	"html"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// escapes is a way of writing characters that texts of some kind cannot hold as they are. Those who write differ in which characters they
// write so, letters and digits aside, and in the case of digits; what they mean by it is the same.
type escapes struct {
	mark byte
	read func(text []byte) (raw []byte, size int) // at a mark; size 0: this is no escape
}

// ways returns how a value may be written. In forms a plus is a space.
func ways() []escapes {
	return []escapes{{'\\', readJSON}, {'%', readPercent}, {'&', readEntity}, {'+', readForm}}
}

// escapable is a value that may be written in another way than as it is.
type escapable struct {
	value string
	core  string // what is in it however it is written
}

// core returns the longest part of a value that nobody escapes: of letters and digits of ASCII, and of what stands in URLs as it is. It may
// be empty.
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

func readJSON(text []byte) ([]byte, int) {
	if len(text) < 2 {
		return nil, 0
	}
	if at := strings.IndexByte(`"\/bfnrt`, text[1]); at >= 0 {
		return []byte{"\"\\/\b\f\n\r\t"[at]}, 2
	}
	r, ok := readUnit(text)
	if !ok {
		return nil, 0
	}
	if utf16.IsSurrogate(r) {
		low, _ := readUnit(text[6:])
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return utf8.AppendRune(nil, pair), 12
		}
	}
	return utf8.AppendRune(nil, r), 6
}

// readUnit reads \uXXXX.
func readUnit(text []byte) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(n), err == nil
}

func readPercent(text []byte) ([]byte, int) {
	if len(text) < 3 {
		return nil, 0
	}
	n, err := strconv.ParseUint(string(text[1:3]), 16, 8)
	if err != nil {
		return nil, 0
	}
	return []byte{byte(n)}, 3
}

func readForm(text []byte) ([]byte, int) {
	if text[0] == '+' {
		return []byte{' '}, 1
	}
	return readPercent(text)
}

// longestEntity is how long a reference to a character may be, with its semicolon.
const longestEntity = 12

func readEntity(text []byte) ([]byte, int) {
	end := bytes.IndexByte(text[:min(len(text), longestEntity)], ';')
	if end < 0 || bytes.IndexByte(text[1:end], '&') >= 0 {
		return nil, 0
	}
	written := string(text[:end+1])
	raw := html.UnescapeString(written)
	if raw == written {
		return nil, 0
	}
	return []byte(raw), end + 1
}

// plain returns a text without the escapes in it, and where in the text each of its bytes comes from, its end included.
func (e escapes) plain(text []byte) (plain []byte, from []int32) {
	plain, from = make([]byte, 0, len(text)), make([]int32, 0, len(text)+1)
	for at := 0; at < len(text); {
		raw, size := text[at:at+1], 1
		if c := text[at]; c == e.mark || e.mark == '+' && c == '%' {
			if found, n := e.read(text[at:]); n > 0 {
				raw, size = found, n
			}
		}
		for range raw {
			from = append(from, int32(at))
		}
		plain, at = append(plain, raw...), at+size
	}
	return plain, append(from, int32(len(text))) //nolint:gosec // Bodies have a megabyte at most.
}

// hide returns a text without the values that it holds with escapes; the same one where it holds none.
func (e escapes) hide(text []byte, values []string) []byte {
	if bytes.IndexByte(text, e.mark) < 0 {
		return text
	}
	plain, from := e.plain(text)
	var found [][2]int32 // of the text, by their begins
	for _, value := range values {
		for at, rest := 0, plain; ; {
			n := bytes.Index(rest, []byte(value))
			if n < 0 {
				break
			}
			at += n + len(value)
			rest = plain[at:]
			found = append(found, [2]int32{from[at-len(value)], from[at]})
		}
	}
	slices.SortFunc(found, func(a, b [2]int32) int { return cmp.Compare(a[0], b[0]) })
	return without(text, found)
}

// without returns a text with the mask in place of what was found in it, the same one where that is nothing. Of what overlaps one mask is left.
func without(text []byte, found [][2]int32) []byte {
	if len(found) == 0 {
		return text
	}
	out, kept := make([]byte, 0, len(text)), int32(0)
	for _, span := range found {
		if span[0] >= kept {
			out = append(append(out, text[kept:span[0]]...), masked...)
		}
		kept = max(kept, span[1])
	}
	return append(out, text[kept:]...)
}
