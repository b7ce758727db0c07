package runs

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"rubato/internal/ids"
)

// ID identifies one run. It is deterministic: equal due time, endpoint, attempt and infrastructure
// attempt give the same ID, so that the database rejects a duplicate run. It is a UUIDv8 (RFC 9562
// section 5.8), and its first 48 bits are the due time in Unix milliseconds. Therefore IDs sort by
// due time, and an ID determines its day partition.
type ID [16]byte

var idKind = ids.Kind{Prefix: "run_", Noun: "run"}

// NewID returns the ID of a run. attempt counts from 1; infra is the number of earlier runs of the
// slot that infrastructure lost. Parts of slot below a millisecond do not count.
func NewID(slot time.Time, endpoint [16]byte, attempt, infra int) ID {
	var seed [32]byte
	ms := slot.UnixMilli()
	copy(seed[:16], endpoint[:])
	binary.BigEndian.PutUint64(seed[16:], uint64(ms))
	binary.BigEndian.PutUint64(seed[24:], uint64(infra)<<32|uint64(attempt))
	sum := sha256.Sum256(seed[:])

	var id ID
	var stamp [8]byte
	binary.BigEndian.PutUint64(stamp[:], uint64(ms))
	copy(id[:6], stamp[2:])
	copy(id[6:], sum[:10])
	id[6] = id[6]&0x0f | 0x80 // version 8
	id[8] = id[8]&0x3f | 0x80 // variant RFC 9562
	return id
}

// FirstID returns the lowest possible ID of the runs due at or after slot.
func FirstID(slot time.Time) ID { return ids.First(slot) }

// FirstAttempt returns the ID of the first attempt of a due time, which is also the Idempotency-Key
// of all its attempts.
func FirstAttempt(slot time.Time, endpoint [16]byte) ID { return NewID(slot, endpoint, 1, 0) }

// ParseID parses the form that String writes. The error is an [errs.NotFound] if the text is not
// the form of a run ID, and an [errs.Malformed] if it is not valid text.
func ParseID(s string) (ID, error) {
	id, err := idKind.Parse(s)
	return id, err
}

// String returns run_ and the UUID in its canonical form.
func (id ID) String() string { return idKind.String(id) }

// Slot returns the due time in the ID, in UTC and whole milliseconds.
func (id ID) Slot() time.Time {
	var stamp [8]byte
	copy(stamp[2:], id[:6])
	return time.UnixMilli(int64(binary.BigEndian.Uint64(stamp[:]))).UTC()
}
