package untrusted

import (
	"regexp"
	"slices"
	"strings"
)

// Redacted replaces a secret.
const Redacted = "[redacted]"

var (
	// scheme finds credentials in headers.
	scheme = regexp.MustCompile(`(?i)\b(bearer|basic|digest|negotiate|token)\s+[\w.~+/=:-]{8,}`)
	// userinfo finds credentials in a URL.
	userinfo = regexp.MustCompile(`(://)[^\s/@"'<>]+@`)
	// shapes are tokens of known formats.
	shapes = regexp.MustCompile(strings.Join([]string{
		`-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|$)`,
		`\beyJ[\w-]{8,}\.[\w-]*(?:\.[\w-]*)*`,         // signed token (JWT)
		`\b(?:sk|pk|rk)[-_](?:[a-z]+[-_])?[\w-]{12,}`, // model and payment services
		`\b(?:AKIA|ASIA)[A-Z0-9]{12,}`,                // cloud keys
		`\b(?:gh[pousr]|github_pat|glpat|npm|whsec|hf|shpat|dop_v1)[-_][\w-]{10,}`,
		`\bxox[a-z]-[\w-]{8,}`,
		`\bAIza[\w-]{20,}`,
		`\bya29\.[\w-]{10,}`,
		`\brbt_[a-z2-7]{12,}`, // Rubato's own keys
	}, "|"))
)

// Marks without which a text cannot match, because the expressions are slow and most texts hold no
// mark.
var (
	schemeMarks = []string{"bearer", "basic", "digest", "negotiate", "token"}
	shapeMarks  = []string{
		"-----begin ", "eyj", "sk-", "sk_", "pk-", "pk_", "rk-", "rk_", "akia", "asia", "ghp", "gho", "ghu", "ghs", "ghr", "github_pat", "glpat",
		"npm", "whsec", "hf", "shpat", "dop_v1", "xox", "aiza", "ya29", "rbt_",
	}
)

// Redact replaces secrets by [Redacted]: values under secret names in JSON, XML, headers, queries
// and settings, tokens of known formats, private keys, credentials in URLs, and long mixes of
// letters and digits. If in doubt, it redacts.
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

// lowered returns text with ASCII letters in lower case, with the same byte positions.
func lowered(text string) string {
	lower := []byte(text)
	for i, c := range lower {
		if c >= 'A' && c <= 'Z' {
			lower[i] = c + 'a' - 'A'
		}
	}
	return string(lower)
}

// minLongRun is the length from which a run of letters and digits may be a key.
const minLongRun = 32

// redactLongRuns redacts long runs that mix letters and digits: keys, hashes and encoded data.
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

// encoded reports whether c is a character of base64 or hex.
func encoded(c byte) bool { return letter(c) || digit(c) || strings.IndexByte("+/_=-", c) >= 0 }
