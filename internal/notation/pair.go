package notation

import (
	"maps"
	"slices"
	"strings"
)

// JoinPair writes a name and its value as one text, such as team:shop, so that [CutPair] reads it
// back. A separator or a backslash in the name is escaped by a backslash. Only the first byte of
// the separator separates; blanks behind it become part of the value.
func JoinPair(name, separator, value string) string {
	return strings.NewReplacer(`\`, `\\`, separator[:1], `\`+separator[:1]).Replace(name) + separator + value
}

// ListPairs writes pairs as [JoinPair] does, in the order of their names.
func ListPairs(of map[string]string, separator string) []string {
	list := make([]string, 0, len(of))
	for _, name := range slices.Sorted(maps.Keys(of)) {
		list = append(list, JoinPair(name, separator, of[name]))
	}
	return list
}

// CutPair reads a pair: the name up to the first separator that no backslash stands before, and the
// value behind it as it is. A backslash before anything else than a separator or a backslash is one
// of the name. found reports whether there is such a separator; without one there is neither name
// nor value.
func CutPair(text string, separator byte) (name, value string, found bool) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == separator:
			return b.String(), text[i+1:], true
		case c == '\\' && i+1 < len(text) && (text[i+1] == separator || text[i+1] == '\\'):
			i++
			c = text[i]
		}
		b.WriteByte(c)
	}
	return "", "", false
}
