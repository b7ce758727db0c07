package planner

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean returns text of outside as it may stand in a record or before a model: valid, without control, format and other invisible
// characters, cut to a number of bytes at a whole character.
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
