package template

import (
	"strings"
	"unicode/utf8"
)

// token is a word of an action.
type token struct {
	kind tokenKind
	text string // of a string: what it stands for
	at   int    // in the text
}

type tokenKind int

const (
	tokenEnd    tokenKind = iota // of the action: }}
	tokenName                    // a name, or a number
	tokenString                  // a string
	tokenMark                    // one of . [ ] |
	tokenBad                     // anything else; text says what is wrong
)

// lexer cuts actions into tokens.
type lexer struct {
	text string
	at   int
}

// next returns the next token of the action at hand. Past the end of the text it is a bad one, without moving on.
func (l *lexer) next() token {
	for l.at < len(l.text) && strings.IndexByte(" \t\r\n", l.text[l.at]) >= 0 {
		l.at++
	}
	from := l.at
	rest := l.text[from:]
	switch {
	case rest == "":
		return token{tokenBad, "the action is not closed; end it with }}", from}
	case strings.HasPrefix(rest, "}}"):
		l.at += 2
		return token{tokenEnd, "}}", from}
	case rest[0] == '"' || rest[0] == '\'':
		return l.quoted(rest[0])
	case strings.IndexByte(".[]|", rest[0]) >= 0:
		l.at++
		return token{tokenMark, rest[:1], from}
	case isNameByte(rest[0]):
		for l.at < len(l.text) && isNameByte(l.text[l.at]) {
			l.at++
		}
		return token{tokenName, l.text[from:l.at], from}
	case rest[0] == '\\':
		l.at++
		return token{tokenBad, `a backslash does not belong here; where quotes would need one, write strings in single quotes: {{secret 'name'}}`, from}
	default:
		_, size := utf8.DecodeRuneInString(rest)
		l.at += size
		return token{tokenBad, "the character " + quote(rest[:size]) + " does not belong here; write a name, a string or a filter", from}
	}
}

// quoted reads a string in quotes of one kind. A backslash takes the next character as it is, except that n and t mean a line break and
// a tab.
func (l *lexer) quoted(mark byte) token {
	from := l.at
	var out strings.Builder
	for l.at++; l.at < len(l.text); l.at++ {
		c := l.text[l.at]
		switch {
		case c == mark:
			l.at++
			return token{tokenString, out.String(), from}
		case c == '\\' && l.at+1 < len(l.text):
			l.at++
			c = l.text[l.at]
			switch c {
			case 'n':
				c = '\n'
			case 't':
				c = '\t'
			}
		}
		out.WriteByte(c)
	}
	return token{tokenBad, "the string is not closed; end it with " + string(rune(mark)), from}
}

// skip moves on to the end of the action, for one that cannot be read.
func (l *lexer) skip() {
	if at := strings.Index(l.text[l.at:], "}}"); at >= 0 {
		l.at += at + 2
		return
	}
	l.at = len(l.text)
}

func isNameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// position is where in a text something is.
type position struct{ line, column int }

// positionOf returns the line and the column of a byte of a text.
func positionOf(text string, at int) position {
	before := text[:at]
	line := strings.LastIndexByte(before, '\n') + 1
	return position{1 + strings.Count(before, "\n"), 1 + utf8.RuneCountInString(before[line:])}
}
