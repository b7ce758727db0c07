package auditlog

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
)

// Mask replaces a secret in output. It is not a valid header value, so that a response that is sent
// back cannot overwrite the secret by the mask.
const Mask = "***"

// secretWords are typical parts of the names of headers and parameters with secrets.
func secretWords() []string {
	return []string{"auth", "cookie", "key", "token", "secret", "password", "passwd", "credential", "signature", "session"}
}

// Secret reports whether a name, such as that of a header, looks like that of a secret.
func Secret(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(secretWords(), func(word string) bool { return strings.Contains(name, word) })
}

// Hidden is a secret value: a change of it is recorded, the value is not.
type Hidden string

// MarshalJSON returns the mask.
func (Hidden) MarshalJSON() ([]byte, error) { return json.Marshal(Mask) }

// Headers returns headers with the values of those that look secret hidden.
func Headers(headers map[string]string) map[string]any {
	out := make(map[string]any, len(headers))
	for name, value := range headers {
		if out[name] = value; Secret(name) {
			out[name] = Hidden(value)
		}
	}
	return out
}

// URL is a URL of which the values of parameters that look secret are hidden.
type URL string

// MarshalJSON returns the URL with masks. The order of the parameters stays.
func (u URL) MarshalJSON() ([]byte, error) { return json.Marshal(maskQuery(string(u))) }

func maskQuery(text string) string {
	address, rest, found := strings.Cut(text, "?")
	if !found {
		return text
	}
	query, fragment, marked := strings.Cut(rest, "#")
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		name, _, valued := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); valued && (err != nil || Secret(plain)) {
			pairs[i] = name + "=" + Mask
		}
	}
	text = address + "?" + strings.Join(pairs, "&")
	if marked {
		text += "#" + fragment
	}
	return text
}

// Digest is a hash of a text that is too long or too secret for the log, so that a change of it is
// visible.
func Digest(text string) string {
	return fmt.Sprintf("%d bytes, sha256:%x", len(text), sha256.Sum256([]byte(text)))
}

// Diff returns the differing members of two states of an object. If one state is nil, the other one
// is returned whole.
func Diff(before, after map[string]any) (old, fresh map[string]any) {
	if before == nil || after == nil {
		return before, after
	}
	old, fresh = map[string]any{}, map[string]any{}
	for name := range before {
		if !reflect.DeepEqual(before[name], after[name]) {
			old[name] = before[name]
		}
	}
	for name := range after {
		if !reflect.DeepEqual(before[name], after[name]) {
			fresh[name] = after[name]
		}
	}
	return old, fresh
}

// Without returns a state without the members that have one of the given values, such as defaults.
func Without(state map[string]any, values ...any) map[string]any {
	maps.DeleteFunc(state, func(_ string, value any) bool {
		return slices.ContainsFunc(values, func(v any) bool { return reflect.DeepEqual(v, value) })
	})
	return state
}
