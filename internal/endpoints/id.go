package endpoints

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"rubato/internal/errs"
)

// ID names an endpoint for ever. It is a UUIDv7, so endpoints sort by when they were registered.
type ID [16]byte

const idPrefix = "ep_"

// NewID returns a fresh ID.
func NewID() ID { return ID(uuid.Must(uuid.NewV7())) }

// ParseID reads the form that String writes. A text that no ID has names nothing: the error is an [errs.NotFound]. What is no text
// at all is an [errs.Malformed].
func ParseID(s string) (ID, error) {
	raw, found := strings.CutPrefix(s, idPrefix)
	u, err := uuid.Parse(raw)
	switch {
	case found && err == nil && len(raw) == 36:
		return ID(u), nil
	case !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl):
		return ID{}, errs.New(errs.Malformed, "invalid_id", "an endpoint id looks like ep_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90")
	default:
		return ID{}, errs.New(errs.NotFound, "not_found", "there is no such endpoint; an endpoint id looks like ep_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90")
	}
}

// String returns the ID as users see it: ep_ and the UUID in its canonical form.
func (id ID) String() string { return idPrefix + uuid.UUID(id).String() }
