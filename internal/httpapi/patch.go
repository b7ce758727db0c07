package httpapi

import (
	"fmt"
	"maps"
	"strings"

	"rubato/internal/endpoints"
)

// patched returns a spec after a JSON Merge Patch (RFC 7396) on its JSON form, header values in the
// clear.
func patched(stored endpoints.Spec, patch map[string]any) (endpoints.Spec, error) {
	document := stored.Document()
	replaceHeaders(document, patch)
	spec, err := endpoints.ReadSpec(merge(document, patch))
	if err != nil {
		return spec, fmt.Errorf("reading the patched endpoint: %w", err)
	}
	return spec, nil
}

// replaceHeaders takes the headers that a patch names out of a document, however they are spelled
// there: the names of headers ignore case. What the patch says of them is merged afterwards.
func replaceHeaders(document, patch map[string]any) {
	stored, _ := document["headers"].(map[string]any) // Absent or null, as in the patch: there are none.
	named, _ := patch["headers"].(map[string]any)
	for name := range named {
		maps.DeleteFunc(stored, func(other string, _ any) bool { return strings.EqualFold(other, name) })
	}
}

// merge applies a patch in place: null removes, objects merge member by member, anything else
// replaces.
func merge(target, patch map[string]any) map[string]any {
	if target == nil {
		target = map[string]any{}
	}
	for name, value := range patch {
		switch value := value.(type) {
		case nil:
			delete(target, name)
		case map[string]any:
			inner, _ := target[name].(map[string]any) // Anything but an object is replaced by one.
			target[name] = merge(inner, value)
		default:
			target[name] = value
		}
	}
	return target
}
