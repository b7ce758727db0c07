package endpoints

import (
	"strings"

	"github.com/google/uuid"

	"rubato/internal/errs"
)

// ID names an endpoint for ever. It is a UUIDv7, so endpoints sort by when they were registered.
type ID [16]byte

const idPrefix = "ep_"

// NewID returns a fresh ID.
func NewID() ID { return ID(uuid.Must(uuid.NewV7())) }

// ParseID reads the form that String writes. The error is an [errs.Malformed] naming the field id.
func ParseID(s string) (ID, error) {
	raw, found := strings.CutPrefix(s, idPrefix)
	u, err := uuid.Parse(raw)
	if !found || err != nil || len(raw) != 36 {
		return ID{}, &errs.Error{
			Code: errs.Malformed, Reason: "invalid_id", Message: "the endpoint id cannot be read",
			Fields: []errs.Field{{Field: "id", Code: "invalid_id", Message: "an endpoint id looks like ep_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90"}},
		}
	}
	return ID(u), nil
}

// String returns the ID as users see it: ep_ and the UUID in its canonical form.
func (id ID) String() string { return idPrefix + uuid.UUID(id).String() }
