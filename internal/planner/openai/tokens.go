package openai

import (
	"strings"
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
func trustedTokens(text string) int64 { return int64(len(text))/3 + 1 }

// theirs bounds the tokens of a text that anybody may have written.
func untrustedTokens(text string) int64 {
	var m tokenCounter
	for i := range len(text) {
		m.add(text[i])
	}
	return m.tokens()
}

// fitting returns as much of a text as takes at most limit tokens, once it is quoted, and size bytes, and whether that is less than all.
func truncate(text string, limit int64, size int) (string, bool) {
	clean, cut := untrusted.Clean(text, size)
	var m tokenCounter
	for i := range len(clean) {
		if m.quote(clean[i]); m.tokens() > limit {
			for i > 0 && !utf8.RuneStart(clean[i]) {
				i--
			}
			return clean[:i], true
		}
	}
	return clean, cut
}

// meter bounds the tokens of a text that it is given a byte at a time. A token is never less than a byte, and that is the bound for digits,
// punctuation, line ends and what is not ASCII. For a run of letters, with the space before it, there is a better one. Tokens are made by
// putting pieces together as long as two neighbours are a token as well. Two letters stay apart only where they are none, so at worst one
// letter alone and two together follow each other: (2n+1)/3 tokens for n letters, and a third of one more for each pair that may be no
// token. A space is a letter in this, since one with any letter is a token.
type tokenCounter struct {
	completed int64 // tokens of what is over
	run       int64 // bytes of the run of letters that is not
	unpaired  int64 // pairs in it that may be no token
	last      byte
}

// add takes the next byte. The bound never shrinks by it.
func (m *tokenCounter) add(c byte) {
	switch {
	case c == ' ':
		m.end()
		m.run = 1
	case c|0x20 >= 'a' && c|0x20 <= 'z':
		if m.run > 0 && m.last != ' ' && !isPair(m.last, c) {
			m.unpaired++
		}
		m.run++
	default:
		m.end()
		m.completed++
	}
	m.last = c
}

// quote takes the next byte of a text as it is quoted.
func (m *tokenCounter) quote(c byte) {
	written := []byte{c}
	switch c {
	case '<':
		written = []byte(`\u003c`)
	case '>':
		written = []byte(`\u003e`)
	case '&':
		written = []byte(`\u0026`)
	case '"', '\\':
		written = []byte{'\\', c}
	}
	for _, c := range written {
		m.add(c)
	}
}

// end ends the run of letters.
func (m *tokenCounter) end() { m.completed, m.run, m.unpaired = m.tokens(), 0, 0 }

// tokens returns the bound so far.
func (m *tokenCounter) tokens() int64 {
	if m.run == 0 {
		return m.completed
	}
	return m.completed + (2*m.run+1+m.unpaired)/3
}

// unpaired are the pairs of small letters that are no token of cl100k_base, o200k_base, or either.
const unpairedLetters = " bq fj fz gj gk gq hj jg jv jw jx jy jz kq kx kz lq mz nq oq qf qg qj qk qo qv qy qz rj tj tq uq vq vz wq wv wz xg xh xj xk xq xu xv xw yf yj yq yv " +
	"zg zj zq zr zv "

// paired reports whether two letters that follow each other are a token. Of pairs with a capital so many are none that none is taken for one.
func isPair(a, b byte) bool {
	return a >= 'a' && b >= 'a' && !strings.Contains(unpairedLetters, string([]byte{' ', a, b, ' '}))
}
