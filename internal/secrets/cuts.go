package secrets

import (
	"bytes"
	"slices"
)

// cuts is a set of places at which a text may have been cut, so that only a part of a value is
// left.
type cuts uint8

const (
	cutAtBegin  cuts = 1 << iota // the text is the end of a longer one
	cutAtEnd                     // the text is the beginning of a longer one
	cutInQuotes                  // a quotation in the text may be cut before its closing mark
)

// begins returns the spans of proper prefixes of a value, of at least minMasked bytes, at the end
// of the text. With quotes, it also finds those before each quotation mark. It is linear in the
// lengths of both (Knuth-Morris-Pratt), because both may be chosen by an attacker.
func begins(value, text []byte, quotes bool) (found []span) {
	value = value[:min(len(value)-1, len(text))]
	start := 0
	if !quotes {
		start = len(text) - len(value)
	}
	if len(value) < minMasked || !bytes.Contains(text[start:], value[:minMasked]) {
		return nil
	}
	borders, n := bordersOf(value), int32(0) // n is the length of the prefix that matches before at.
	for at, c := range text[start:] {
		if c == '"' && quotes && n >= minMasked {
			found = append(found, spanOf(start+at-int(n), start+at))
		}
		for n > 0 && (int(n) == len(value) || value[n] != c) {
			n = borders[n-1]
		}
		if value[n] == c {
			n++
		}
	}
	if n >= minMasked {
		found = append(found, spanOf(len(text)-int(n), len(text)))
	}
	return found
}

// bordersOf returns the failure function of Knuth, Morris and Pratt: for each prefix of a value,
// the length of its longest proper border.
func bordersOf(value []byte) []int32 {
	borders, n := make([]int32, len(value)), int32(0)
	for i := 1; i < len(value); i++ {
		for n > 0 && value[n] != value[i] {
			n = borders[n-1]
		}
		if value[n] == value[i] {
			n++
		}
		borders[i] = n
	}
	return borders
}

// ending returns the length of the longest proper suffix of a value that the text begins with; 0:
// less than minMasked.
func ending(value, text []byte) int {
	text = text[:min(len(value)-1, len(text))]
	if len(text) < minMasked || !bytes.Contains(value, text[:minMasked]) {
		return 0
	}
	for _, s := range begins(reversed(value), reversed(text), false) {
		return int(s.end - s.begin)
	}
	return 0
}

func reversed(text []byte) []byte {
	text = bytes.Clone(text)
	slices.Reverse(text)
	return text
}
