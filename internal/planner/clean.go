package planner

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean returns untrusted text that is safe to store and to show to a model: valid UTF-8, without
// control, format and other invisible characters, at most limit bytes, cut between characters.
func clean(text string, limit int) string {
	var b strings.Builder
	for _, r := range text {
		if r == utf8.RuneError || (r != '\n' && r != '\t' && !unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r)) {
			continue
		}
		if b.Len()+utf8.RuneLen(r) > limit {
			return b.String()
		}
		b.WriteRune(r)
	}
	return b.String()
}
