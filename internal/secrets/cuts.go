package secrets

import (
	"bytes"
	"slices"
)

// cuts says where a text may have been cut, so that only a part of a value is left there.
type cuts uint8

const (
	cutAtBegin  cuts = 1 << iota // there was more of it before
	cutAtEnd                     // there was more of it behind
	cutInQuotes                  // a quotation in it may have been cut, before its closing mark
)

// begins returns where only the begin of a value stands in a text, of at least minMasked bytes: at the end of the text, and before each
// quotation mark where quotes says so. It takes as many steps as both have bytes, whatever these are: a target chooses the one, and
// perhaps a stranger the other.
func begins(value, text []byte, quotes bool) (found []span) {
	value = value[:min(len(value)-1, len(text))]
	start := 0
	if !quotes {
		start = len(text) - len(value)
	}
	if len(value) < minMasked || !bytes.Contains(text[start:], value[:minMasked]) {
		return nil
	}
	borders, n := bordersOf(value), int32(0) // n bytes of the value stand before at.
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

// bordersOf returns for each begin of a value how long the longest shorter begin is that it ends with, as Knuth, Morris and Pratt have it.
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

// ending returns how many bytes of the end of a value a text begins with, but not of all of it; 0: less than minMasked.
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
