package openai

import (
	"strings"
	"unicode/utf8"

	"rubato/internal/planner/untrusted"
)

// Upper bounds of sizes in tokens. Only the service knows the exact counts; reserved tokens that it
// does not report as used are returned.
const (
	perRequest    = 32 // including a final reminder
	perMessage    = 6
	maxReported   = 1 << 20 // per request; higher reports are ignored
	minCompletion = 180     // the least that holds a submission
	shortTurn     = 100     // a short completion and its reply
)

// trustedTokens bounds the tokens of our own text: English and JSON have about four bytes a token.
func trustedTokens(text string) int64 { return int64(len(text))/3 + 1 }

// untrustedTokens bounds the tokens of untrusted text.
func untrustedTokens(text string) int64 {
	var m tokenCounter
	for i := range len(text) {
		m.add(text[i])
	}
	return m.tokens()
}

// truncate returns the longest prefix of a text with at most limit tokens, once quoted, and size
// bytes. It reports whether something was cut off.
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

// tokenCounter computes an upper bound of the tokens of a text, byte by byte. A token has at least
// one byte, and that is the bound for digits, punctuation, line ends and non-ASCII characters. For
// a run of letters with its leading space there is a better bound. A tokenizer merges pieces as
// long as two neighbours form a token. Two letters stay apart only if their pair is no token, so at
// worst single letters and pairs alternate. That gives (2n+1)/3 tokens for n letters, and a third
// more for each pair that may be no token. A space counts as a letter, because a space with any
// letter is a token.
type tokenCounter struct {
	completed int64 // tokens before the current run
	run       int64 // bytes of the current run of letters
	unpaired  int64 // pairs in the run that may be no token
	last      byte
}

// add counts the next byte. The bound never shrinks.
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

// quote counts the next byte in its quoted form.
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

// unpairedLetters are the pairs of small letters that are no token of cl100k_base, o200k_base, or
// both.
const unpairedLetters = " bq fj fz gj gk gq hj jg jv jw jx jy jz kq kx kz lq mz nq oq qf qg qj qk qo qv qy qz rj tj tq uq vq vz wq wv wz xg xh xj xk xq xu xv xw yf yj yq yv " +
	"zg zj zq zr zv "

// isPair reports whether two adjacent letters form a token. Pairs with a capital never count,
// because most of them are no token.
func isPair(a, b byte) bool {
	return a >= 'a' && b >= 'a' && !strings.Contains(unpairedLetters, string([]byte{' ', a, b, ' '}))
}
