package httpapi

import (
	"maps"
	"slices"

	"rubato/internal/auditlog"
	"rubato/internal/errs"
)

// mask is shown in place of a secret.
const mask = auditlog.Mask

// refuseMask adds an error for every header that has the mask as its value.
func (in *input) refuseMask() {
	headers, _ := in.value["headers"].(map[string]any) // Absent or null: nothing to refuse.
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if headers[name] == mask {
			in.missing = append(in.missing, errs.Field{
				Field: join("headers", name), Code: "masked_value",
				Message: "is the mask that answers show in place of a secret; send the real value, or leave the header out of a PATCH to keep it",
			})
		}
	}
}
