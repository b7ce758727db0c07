package auditlog

import (
	"encoding/binary"
	"time"

	"github.com/google/uuid"
)

// ID is the ID of an entry. It begins with its time, so that entries sort by time.
type ID [16]byte

const idPrefix = "aud_"

// String returns the ID as users see it: aud_ and the UUID in its canonical form.
func (id ID) String() string { return idPrefix + uuid.UUID(id).String() }

// FirstID returns the lowest ID that an entry of an instant, or of a later one, can have: 48 bits
// of milliseconds, the version, and 12 bits of microseconds, as the schema makes them.
func FirstID(at time.Time) ID {
	var id ID
	micros := max(at.UnixMicro(), 0)
	binary.BigEndian.PutUint64(id[:], uint64(micros/1000)<<16|8<<12|uint64(micros%1000))
	return id
}

// LastID returns an ID that sorts above all others.
func LastID() ID {
	var id ID
	for i := range id {
		id[i] = 0xff
	}
	return id
}
