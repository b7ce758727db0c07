package template

import (
	"strings"
	"unicode/utf8"
)

// token is a lexical token of an action.
type token struct {
	kind tokenKind
	// text of a string token is its unescaped value.
	text string
	// at is the offset in the text.
	at int
}

type tokenKind int

const (
	tokenEnd    tokenKind = iota // of the action: }}
	tokenName                    // a name, or a number
	tokenString                  // a string
	tokenMark                    // one of . [ ] |
	tokenBad                     // an error; text describes it
)

// lexer splits actions into tokens.
type lexer struct {
	text string
	at   int
}

// next returns the next token of the current action. At the end of the text it returns a bad token
// and does not advance.
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

// quoted reads a string literal. A backslash escapes the next character;
// and \t are a line break and a tab.
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

// skip advances to the end of an unparsable action.
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

// position is a place in a text.
type position struct{ line, column int }

// positionOf returns the line and column of a byte offset.
func positionOf(text string, at int) position {
	before := text[:at]
	line := strings.LastIndexByte(before, '\n') + 1
	return position{1 + strings.Count(before, "\n"), 1 + utf8.RuneCountInString(before[line:])}
}
