package openai

import (
	"unicode/utf8"

	"rubato/internal/planner/untrusted"
)

// What things cost at most, in tokens. Nobody but the service can count them, so these are bounds: what is reserved and not used is
// given back when the service has told.
const (
	perRequest    = 32 // with the word that it is the last
	perMessage    = 6
	maxReported   = 1 << 20 // of one call; a service that reports more is not believed
	minCompletion = 180     // fewer do not hold a submission
	shortTurn     = 100     // what a short answer of the model and what it is told add to a conversation
)

// ours bounds the tokens of a text that we wrote: English and JSON take about four bytes for one.
func ours(text string) int64 { return int64(len(text))/3 + 1 }

// theirs bounds the tokens of a text that anybody may have written. Words take two letters for one at worst, and everything else as many
// as it has bytes.
func theirs(text string) int64 {
	letters, others := int64(0), int64(0)
	for i := range len(text) {
		switch c := text[i]; {
		case c|0x20 >= 'a' && c|0x20 <= 'z':
			letters++
		case c == ' ':
		default:
			others++
		}
	}
	return letters/2 + others + 1
}

// fitting returns as much of a text as takes at most limit tokens and size bytes, and whether that is less than all.
func fitting(text string, limit int64, size int) (string, bool) {
	clean, cut := untrusted.Clean(text, size)
	used := int64(0) // in halves
	for i := range len(clean) {
		switch c := clean[i]; {
		case c|0x20 >= 'a' && c|0x20 <= 'z':
			used++
		case c == ' ':
		default:
			used += 2
		}
		if used > 2*limit {
			for i > 0 && !utf8.RuneStart(clean[i]) {
				i--
			}
			return clean[:i], true
		}
	}
	return clean, cut
}
