package secrets

import (
	"bytes"
	"cmp"
	"slices"
)

// span is a part of a text.
type span struct{ begin, end int32 }

func spanOf(begin, end int) span {
	return span{int32(begin), int32(end)} //nolint:gosec // Bodies have a megabyte at most.
}

// without returns a text with the mask in place of what was found in it, the same one where that is nothing. Of what overlaps one mask is left.
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

// view is a text as it reads when escapes in it are undone.
type view struct {
	plain []byte
	from  []int32 // where in the text each byte of plain comes from, the end of the text included; nil: plain is the text
	whole int     // how much of plain is there in full: what follows is the begin of an escape that was cut
}

// wholly returns the view of a text in which nothing is undone.
func wholly(text []byte) view { return view{plain: text, whole: len(text)} }

// origin returns the part of the text that a part of plain comes from. What is before the end of plain or of what is whole of it reaches
// to the end of the text.
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

// find adds to what was found where a value stands in the text.
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

// findCut adds to what was found where the text was cut and holds a part of a value, of at least minMasked bytes.
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

// findEnd looks for the end of a value at the begin of the text, where the end of an escape may stand before it that was cut; of one that was
// escaped itself more is left.
func (v view) findEnd(found []span, value []byte) []span {
	for rest := range min(2*longestEscape, len(v.plain)) {
		if n := ending(value, v.plain[rest:]); n > 0 {
			found = append(found, v.origin(0, rest+n))
		}
	}
	return found
}
