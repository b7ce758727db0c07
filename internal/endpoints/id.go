package endpoints

import (
	"github.com/google/uuid"

	"rubato/internal/ids"
)

// ID identifies an endpoint permanently. It is a UUIDv7, so that endpoints sort by the time of
// their registration.
type ID [16]byte

var idKind = ids.Kind{Prefix: "ep_", Noun: "endpoint"}

// NewID returns a fresh ID.
func NewID() ID { return ID(uuid.Must(uuid.NewV7())) }

// ParseID parses the form that String writes. The error is an [errs.Malformed] for input that is
// not text, and an [errs.NotFound] for any other input that is no ID.
func ParseID(s string) (ID, error) {
	id, err := idKind.Parse(s)
	return id, err
}

// String returns the ID in its API form: ep_ and the UUID in canonical form.
func (id ID) String() string { return idKind.String(id) }
