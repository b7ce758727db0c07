package untrusted

import (
	"regexp"
	"slices"
	"strings"
)

// Redacted stands where a secret was.
const Redacted = "[redacted]"

var (
	// scheme finds credentials as headers carry them.
	scheme = regexp.MustCompile(`(?i)\b(bearer|basic|digest|negotiate|token)\s+[\w.~+/=:-]{8,}`)
	// userinfo finds credentials in a URL.
	userinfo = regexp.MustCompile(`(://)[^\s/@"'<>]+@`)
	// shapes are secrets by their looks.
	shapes = regexp.MustCompile(strings.Join([]string{
		`-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|$)`,
		`\beyJ[\w-]{8,}\.[\w-]*(?:\.[\w-]*)*`,         // a signed token
		`\b(?:sk|pk|rk)[-_](?:[a-z]+[-_])?[\w-]{12,}`, // model and payment services
		`\b(?:AKIA|ASIA)[A-Z0-9]{12,}`,                // cloud keys
		`\b(?:gh[pousr]|github_pat|glpat|npm|whsec|hf|shpat|dop_v1)[-_][\w-]{10,}`,
		`\bxox[a-z]-[\w-]{8,}`,
		`\bAIza[\w-]{20,}`,
		`\bya29\.[\w-]{10,}`,
		`\brbt_[a-z2-7]{12,}`, // keys of our own
	}, "|"))
)

// What a text must hold for an expression to be worth running: they are slow, and most texts hold none of it.
var (
	schemeMarks = []string{"bearer", "basic", "digest", "negotiate", "token"}
	shapeMarks  = []string{
		"-----begin ", "eyj", "sk-", "sk_", "pk-", "pk_", "rk-", "rk_", "akia", "asia", "ghp", "gho", "ghu", "ghs", "ghr", "github_pat", "glpat",
		"npm", "whsec", "hf", "shpat", "dop_v1", "xox", "aiza", "ya29", "rbt_",
	}
)

// Redact returns text with [Redacted] in the place of what is or looks like a secret: values under telling names in JSON, XML, headers,
// queries and settings, tokens of known shapes, private keys, credentials in URLs, and long mixes of letters and digits. It takes out
// too much rather than too little.
func Redact(text string) string {
	lower := lowered(text)
	if containsAny(lower, shapeMarks) {
		text = shapes.ReplaceAllString(text, Redacted)
	}
	if strings.Contains(text, "://") {
		text = userinfo.ReplaceAllString(text, "${1}"+Redacted+"@")
	}
	if containsAny(lower, schemeMarks) {
		text = scheme.ReplaceAllString(text, "${1} "+Redacted)
	}
	return redactLongRuns(redactNamed(redactElements(text)))
}

func containsAny(text string, marks []string) bool {
	return slices.ContainsFunc(marks, func(mark string) bool { return strings.Contains(text, mark) })
}

// lowered returns text with ASCII letters in lower case, byte for byte.
func lowered(text string) string {
	lower := []byte(text)
	for i, c := range lower {
		if c >= 'A' && c <= 'Z' {
			lower[i] = c + 'a' - 'A'
		}
	}
	return string(lower)
}

// longest is from how many characters on a run of letters and digits may be a key without a name.
const minLongRun = 32

// withoutLong takes out long runs in which letters and digits mix: keys, hashes, and what somebody encoded to pass unread.
func redactLongRuns(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		end, letters, digits := i, false, false
		for end < len(text) && encoded(text[end]) {
			letters = letters || letter(text[end])
			digits = digits || digit(text[end])
			end++
		}
		switch {
		case end == i:
			end++
			b.WriteByte(text[i])
		case end-i >= minLongRun && letters && digits:
			b.WriteString(Redacted)
		default:
			b.WriteString(text[i:end])
		}
		i = end
	}
	return b.String()
}

func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func digit(c byte) bool  { return c >= '0' && c <= '9' }

// encoded reports whether c is one of the characters by which bytes are written as text.
func encoded(c byte) bool { return letter(c) || digit(c) || strings.IndexByte("+/_=-", c) >= 0 }
