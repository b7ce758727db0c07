package endpoints

import (
	"github.com/google/uuid"

	"rubato/internal/ids"
)

// ID names an endpoint for ever. It is a UUIDv7, so endpoints sort by when they were registered.
type ID [16]byte

var idKind = ids.Kind{Prefix: "ep_", Noun: "endpoint"}

// NewID returns a fresh ID.
func NewID() ID { return ID(uuid.Must(uuid.NewV7())) }

// ParseID reads the form that String writes. A text that no ID has names nothing: the error is an [errs.NotFound]. What is no text
// at all is an [errs.Malformed].
func ParseID(s string) (ID, error) {
	id, err := idKind.Parse(s)
	return id, err
}

// String returns the ID as users see it: ep_ and the UUID in its canonical form.
func (id ID) String() string { return idKind.String(id) }
