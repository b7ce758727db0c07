package untrusted

import (
	"encoding/json"
	"strings"
)

// withoutSecrets returns a decoded value with what stands under telling names taken out, at any depth, and nothing unseen in its texts.
func redactMembers(value any) any {
	switch v := value.(type) {
	case map[string]any:
		named := namesSecret(v)
		for key, inner := range v {
			if isSecretMember(key, inner) || named && strings.EqualFold(key, "value") {
				v[key] = Redacted
				continue
			}
			v[key] = redactMembers(inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = redactMembers(inner)
		}
	case string:
		return Visible(v) // Before it is quoted: a control character would come back as the escape that spells it.
	}
	return value
}

// private reports whether value must not be shown under key.
func isSecretMember(key string, value any) bool {
	secret, numbers := isSecretName(key)
	switch value.(type) {
	case nil, bool:
		return false
	case json.Number:
		return numbers
	default:
		return secret
	}
}

// namesSecret reports whether an object is a pair of a telling name and a value, as lists of headers and variables write them.
func namesSecret(object map[string]any) bool {
	for key, value := range object {
		name, is := value.(string)
		if !is || !strings.EqualFold(key, "name") && !strings.EqualFold(key, "key") {
			continue
		}
		if secret, _ := isSecretName(name); secret {
			return true
		}
	}
	return false
}
