package auditlog

import "github.com/google/uuid"

// ID names an entry. It begins with the instant, so entries sort by time.
type ID [16]byte

const idPrefix = "aud_"

// String returns the ID as users see it: aud_ and the UUID in its canonical form.
func (id ID) String() string { return idPrefix + uuid.UUID(id).String() }
