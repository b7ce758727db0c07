package secrets

import (
	"bytes"
	"cmp"
	"slices"
)

// span is a range of a text.
type span struct{ begin, end int32 }

func spanOf(begin, end int) span {
	return span{int32(begin), int32(end)}
}

// without returns a text with the mask in place of the found spans, or the text itself if there are
// none. Overlapping spans get one mask.
func without(text []byte, found []span) []byte {
	if len(found) == 0 {
		return text
	}
	slices.SortFunc(found, func(a, b span) int { return cmp.Compare(a.begin, b.begin) })
	out, kept := make([]byte, 0, len(text)), int32(0)
	for _, s := range found {
		if s.begin >= kept {
			out = append(append(out, text[kept:s.begin]...), masked...)
		}
		kept = max(kept, s.end)
	}
	return append(out, text[kept:]...)
}

// view is a text with its escapes decoded.
type view struct {
	plain []byte
	// from maps each byte of plain, and its end, to an offset in the text; nil: plain is the text.
	from []int32
	// whole is the length of the completely decoded part of plain. An escape that was cut follows
	// it.
	whole int
}

// wholly returns the view of a text without decoding.
func wholly(text []byte) view { return view{plain: text, whole: len(text)} }

// origin returns the span of the text that a range of plain was decoded from. A range that reaches
// the end of plain or of its whole part extends to the end of the text.
func (v view) origin(begin, end int) span {
	switch {
	case v.from == nil:
		return spanOf(begin, end)
	case end >= v.whole:
		return span{v.from[begin], v.from[len(v.plain)]}
	default:
		return span{v.from[begin], v.from[end]}
	}
}

// find appends the spans of a value.
func (v view) find(found []span, value []byte) []span {
	for begin := 0; ; {
		n := bytes.Index(v.plain[begin:], value)
		if n < 0 {
			return found
		}
		begin += n + len(value)
		found = append(found, v.origin(begin-len(value), begin))
	}
}

// findCut appends the spans in which a cut left a part of a value, of at least minMasked bytes.
func (v view) findCut(found []span, value []byte, at cuts) []span {
	if at&(cutAtEnd|cutInQuotes) != 0 {
		found = v.findBegins(found, value, at&cutInQuotes != 0)
	}
	if at&cutAtBegin != 0 {
		found = v.findEnd(found, value)
	}
	return found
}

func (v view) findBegins(found []span, value []byte, quotes bool) []span {
	for _, s := range begins(value, v.plain, quotes) {
		found = append(found, v.origin(int(s.begin), int(s.end)))
	}
	if v.whole == len(v.plain) {
		return found
	}
	for _, s := range begins(value, v.plain[:v.whole], false) {
		found = append(found, v.origin(int(s.begin), int(s.end)))
	}
	return found
}

// findEnd looks for the end of a value at the beginning of the text. The end of a cut escape may
// precede it, which is longer if the escape was escaped itself.
func (v view) findEnd(found []span, value []byte) []span {
	for rest := range min(2*longestEscape, len(v.plain)) {
		if n := ending(value, v.plain[rest:]); n > 0 {
			found = append(found, v.origin(0, rest+n))
		}
	}
	return found
}
