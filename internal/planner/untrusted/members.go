package untrusted

import (
	"encoding/json"
	"strings"
)

// redactMembers returns a decoded value in which members with secret names are redacted at any
// depth, and texts have no invisible characters.
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
		return Visible(v) // before quoting, which would turn a control character into its escape
	}
	return value
}

// isSecretMember reports whether the value of a member must be redacted.
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

// namesSecret reports whether an object is a pair of a secret name and a value, as in lists of
// headers and variables.
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
