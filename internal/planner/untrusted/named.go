package untrusted

import "strings"

// secretStem is a part of a name that marks its value as a secret.
type secretStem struct {
	text string
	// whole requires the stem to be a whole word, because it is part of harmless words.
	whole bool
	// strict also redacts numbers. Under other stems a number counts tokens or sessions, which is
	// useful.
	strict bool
}

// secretStems are matched in lower case against names without separators.
var secretStems = []secretStem{
	{"password", false, true},
	{"passwd", false, true},
	{"passwort", false, true},
	{"passphrase", false, true},
	{"passcode", false, true},
	{"secret", false, true},
	{"pin", true, true},
	{"otp", true, true},
	{"cvv", true, true},
	{"pwd", false, false},
	{"token", false, false},
	{"apikey", false, false},
	{"accesskey", false, false},
	{"privatekey", false, false},
	{"signingkey", false, false},
	{"encryptionkey", false, false},
	{"authorization", false, false},
	{"cookie", false, false},
	{"credential", false, false},
	{"sessionid", false, false},
	{"sid", true, false},
	{"jwt", true, false},
	{"auth", true, false},
	{"signature", false, false},
	{"xamzsecurity", false, false},
	{"connectionstring", false, false},
	{"databaseurl", false, false},
	{"dsn", true, false},
}

// separator reports whether c separates the words of a name.
func separator(c byte) bool { return c == '_' || c == '-' || c == '.' || c == ' ' }

// matchAt returns the stem at a position of a lower-case text, and its end.
func matchAt(lower string, at int) (secretStem, int, bool) {
	for _, s := range secretStems {
		end, ok := matchWord(lower, at, s.text)
		if !ok || s.whole && (at > 0 && alphanumeric(lower[at-1]) || end < len(lower) && alphanumeric(lower[end])) {
			continue
		}
		return s, end, true
	}
	return secretStem{}, 0, false
}

// matchWord reports whether word is at a position of text, with at most one separator between two
// letters, and its end.
func matchWord(text string, at int, word string) (int, bool) {
	for i := range len(word) {
		if i > 0 && at < len(text) && separator(text[at]) {
			at++
		}
		if at >= len(text) || text[at] != word[i] {
			return 0, false
		}
		at++
	}
	return at, true
}

func alphanumeric(c byte) bool { return letter(c) || digit(c) }

// isSecretName reports whether a name is that of a secret, and whether numbers under it are secret,
// too.
func isSecretName(name string) (secret, numbers bool) {
	lower := lowered(name)
	for i := range len(lower) {
		if s, _, found := matchAt(lower, i); found {
			secret, numbers = true, numbers || s.strict
		}
	}
	return secret, numbers
}

// redactNamed redacts the value after a secret name and an equals sign or colon, also in nested
// quotes. It takes one pass over the text.
func redactNamed(text string) string {
	lower := lowered(text)
	var b strings.Builder
	done := 0
	for i := 0; i < len(text); i++ {
		s, end, found := matchAt(lower, i)
		if !found {
			continue
		}
		from, to := value(text, end, s)
		if from < to {
			b.WriteString(text[done:from])
			b.WriteString(Redacted)
			done, i = to, to-1
		}
	}
	b.WriteString(text[done:])
	return b.String()
}

// value returns the range of the value that belongs to a name with a stem that ends at a position.
// The range is empty if there is no value, or none to redact.
func value(text string, at int, s secretStem) (from, to int) {
	slashes, quoted, found := assigned(text, at)
	if !found {
		return 0, 0
	}
	at = skip(text, slashes, 8, backslash)
	switch {
	case at >= len(text):
		return 0, 0
	case quotes(text[at]):
		return at + 1, closing(text, at+1, text[at], at > slashes)
	case quoted && (text[at] == '{' || text[at] == '['):
		return at, balanced(text, at)
	}
	end := skip(text, at, len(text), isBareByte)
	if literal(text[at:end]) || quoted && !s.strict && (digit(text[at]) || text[at] == '-') {
		return 0, 0
	}
	if s.text == "authorization" { // a scheme, then the credentials
		end = skip(text, skip(text, end, 1, blank), len(text), isBareByte)
	}
	return at, end
}

// assigned returns the start of the value after the rest of a name, and whether the name was
// quoted; found is false if there is no value.
func assigned(text string, at int) (begin int, quoted, found bool) {
	at = skip(text, at, 64, func(c byte) bool { return alphanumeric(c) || separator(c) })
	at = skip(text, at, 8, backslash)
	if quoted = at < len(text) && quotes(text[at]); quoted {
		at++
	}
	at = skip(text, at, 8, blank)
	if at >= len(text) || text[at] != ':' && text[at] != '=' {
		return 0, false, false
	}
	return skip(text, at+1, 8, blank), quoted, true
}

func backslash(c byte) bool { return c == '\\' }
func quotes(c byte) bool    { return c == '"' || c == '\'' }

func skip(text string, at, most int, may func(byte) bool) int {
	for ; most > 0 && at < len(text) && may(text[at]); most-- {
		at++
	}
	return at
}

func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// isBareByte reports whether c may be part of an unquoted value.
func isBareByte(c byte) bool { return !blank(c) && strings.IndexByte(`"'\&;,<>(){}[]`, c) < 0 }

func literal(word string) bool { return word == "true" || word == "false" || word == "null" }

// closing returns the end of a quoted value: its closing quote, or the end of a truncated text. In
// nested quotes the first backslash ends it.
func closing(text string, at int, mark byte, nested bool) int {
	for at < len(text) && text[at] != mark {
		if text[at] == '\\' {
			if nested {
				return at
			}
			at++
		}
		at++
	}
	return min(at, len(text))
}

// balanced returns the end of an object or a list.
func balanced(text string, at int) int {
	depth := 0
	for ; at < len(text); at++ {
		switch text[at] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return at + 1
			}
		}
	}
	return at
}
