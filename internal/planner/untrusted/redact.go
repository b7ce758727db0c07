package untrusted

import (
	"encoding/json"
	"regexp"
	"strings"
)

// Redacted stands where a secret was.
const Redacted = "[redacted]"

// names are parts of names whose values are nobody's business. A value that is a number is one only under the stricter of them: a count
// of tokens is worth reading.
const (
	strict = `passw(?:or)?d|passwd|passphrase|passcode|secret|\bpin\b|\botp\b|\bcvv\b`
	names  = strict + `|pwd|token|api[ _-]?key|apikey|access[ _-]?key|private[ _-]?key|signing[ _-]?key|encryption[ _-]?key|authorization|` +
		`cookie|credential|session[ _-]?id|\bsid\b|\bjwt\b|\bauth\b|signature|x-amz-security|connection[ _-]?string|database[ _-]?url|\bdsn\b`
)

var (
	secretName = regexp.MustCompile(`(?i)` + names)
	strictName = regexp.MustCompile(`(?i)` + strict)

	// member finds a string under such a name in JSON, whole or cut; nested finds one in JSON that is quoted within JSON.
	member = regexp.MustCompile(`(?i)("[^"\\]{0,64}(?:` + names + `)[^"\\]{0,64}"\s*:\s*")(?:[^"\\]|\\.)*`)
	nested = regexp.MustCompile(`(?i)(\\+"[^"\\]{0,64}(?:` + names + `)[^"\\]{0,64}\\+"\s*:\s*\\+")[^"\\]*`)
	// number finds a number under a strict name in JSON.
	number = regexp.MustCompile(`(?i)("[^"\\]{0,64}(?:` + strict + `)[^"\\]{0,64}"\s*:\s*)-?\d[\d.eE+-]*`)
	// scheme finds credentials in a header, and pair a name and a value as queries, forms, headers and settings write them.
	scheme = regexp.MustCompile(`(?i)\b(bearer|basic|digest|negotiate|token)\s+[\w.~+/=:-]{8,}`)
	pair   = regexp.MustCompile(`(?i)([\w.-]{0,64}(?:` + names + `)[\w.-]{0,64}\s?[=:]\s?)([^\s"'\\&;,<>(){}\[\]]+)`)
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
		`\brubato_[\w-]{16,}`,
	}, "|"))
	userinfo = regexp.MustCompile(`(://)[^\s/@"'<>]+@`)
	// long finds what may be a key without a name; only a mix of letters and digits is one.
	long = regexp.MustCompile(`[A-Za-z0-9+/_=-]{32,}`)
)

// Redact returns text with [Redacted] in the place of what is or looks like a secret: values under telling names in JSON, headers,
// queries and settings, tokens of known shapes, private keys, credentials in URLs, and long mixes of letters and digits. It takes out
// too much rather than too little.
func Redact(text string) string {
	text = shapes.ReplaceAllString(text, Redacted)
	text = userinfo.ReplaceAllString(text, "${1}"+Redacted+"@")
	text = scheme.ReplaceAllString(text, "${1} "+Redacted)
	text = member.ReplaceAllString(text, "${1}"+Redacted)
	text = nested.ReplaceAllString(text, "${1}"+Redacted)
	text = number.ReplaceAllString(text, `${1}"`+Redacted+`"`)
	text = pair.ReplaceAllString(text, "${1}"+Redacted)
	return long.ReplaceAllStringFunc(text, func(s string) string {
		if strings.ContainsAny(s, "0123456789") && strings.ContainsAny(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz") {
			return Redacted
		}
		return s
	})
}

// withoutSecrets returns a decoded value with what stands under telling names taken out, at any depth.
func withoutSecrets(value any) any {
	switch v := value.(type) {
	case map[string]any:
		named := namesSecret(v)
		for key, inner := range v {
			if private(key, inner) || named && strings.EqualFold(key, "value") {
				v[key] = Redacted
				continue
			}
			v[key] = withoutSecrets(inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = withoutSecrets(inner)
		}
	case string:
		return Visible(v) // Before it is quoted: a control character would come back as the escape that spells it.
	}
	return value
}

// private reports whether value must not be shown under key.
func private(key string, value any) bool {
	switch value.(type) {
	case nil, bool:
		return false
	case json.Number:
		return strictName.MatchString(key)
	default:
		return secretName.MatchString(key)
	}
}

// namesSecret reports whether an object is a pair of a telling name and a value, as lists of headers and variables write them.
func namesSecret(object map[string]any) bool {
	for key, value := range object {
		name, is := value.(string)
		if is && (strings.EqualFold(key, "name") || strings.EqualFold(key, "key")) && secretName.MatchString(name) {
			return true
		}
	}
	return false
}
