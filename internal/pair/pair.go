// Package pair reads and writes a name and its value as one text with a separator between them, as labels are filtered by and forms are
// filled in: team:shop. The name may hold the separator too, so there it stands behind a backslash, as does a backslash itself.
package pair

import "strings"

// Escape writes a name so that [Cut] finds its end where the separator follows it.
func Escape(name string, separator byte) string {
	return strings.NewReplacer(`\`, `\\`, string(separator), `\`+string(separator)).Replace(name)
}

// Cut reads a pair: the name up to the first separator that no backslash stands before, and the value behind it as it is. A backslash
// before anything else than a separator or a backslash is one of the name. found tells whether there was such a separator; without one
// there is neither name nor value.
func Cut(text string, separator byte) (name, value string, found bool) {
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
