package runs

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"rubato/internal/ids"
)

// ID names one run. It is deterministic: the same due time, endpoint, attempt and infrastructure attempt always give the same ID, so that
// a database can refuse the second of two runs that would be the same. It is a UUIDv8 (RFC 9562 section 5.8) whose first 48 bits are the due
// time in Unix milliseconds: IDs sort by due time, and an ID alone tells the day partition that holds its row.
type ID [16]byte

var idKind = ids.Kind{Prefix: "run_", Noun: "run"}

// NewID returns the ID of the attempt-th request (counted from 1) for the due time slot of an endpoint, after infra runs of the slot that
// infrastructure lost (counted from 0). Sub-millisecond parts of slot do not count.
func NewID(slot time.Time, endpoint [16]byte, attempt, infra int) ID {
	var seed [32]byte
	ms := slot.UnixMilli()
	copy(seed[:16], endpoint[:])
	binary.BigEndian.PutUint64(seed[16:], uint64(ms))
	binary.BigEndian.PutUint64(seed[24:], uint64(infra)<<32|uint64(attempt)) //nolint:gosec // Small and never negative.
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

// FirstID returns the lowest ID that a run of a due time, or of a later one, can have.
func FirstID(slot time.Time) ID { return ids.First(slot) }

// ParseID reads the form that String writes. A text that no ID has names nothing: the error is an [errs.NotFound]. What is no text
// at all is an [errs.Malformed].
func ParseID(s string) (ID, error) {
	id, err := idKind.Parse(s)
	return id, err
}

// String returns the ID as users see it: run_ and the UUID in its canonical form.
func (id ID) String() string { return idKind.String(id) }

// Slot returns the due time that the ID carries, to the millisecond, in UTC.
func (id ID) Slot() time.Time {
	var stamp [8]byte
	copy(stamp[2:], id[:6])
	return time.UnixMilli(int64(binary.BigEndian.Uint64(stamp[:]))).UTC() //nolint:gosec // 48 bits always fit.
}
