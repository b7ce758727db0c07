package governor

import (
	"encoding/binary"
	"time"
)

// offset returns the endpoint's shift for a due time: at least 0 and below the limit, in whole milliseconds for a limit of a
// millisecond or more; 0 for a limit that is not positive. It depends on the endpoint and the due time alone, so a replay
// finds it again, and endpoints that are due together spread evenly.
//
// The hash is part of the contract, because decisions on record are replayed with it: the two halves of the ID, read as
// big-endian numbers, and the due time in microseconds since 1970, each mixed in turn into the state by mix. Microseconds
// are what the database keeps of an instant.
func offset(endpoint [16]byte, due time.Time, limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	h := mix(binary.BigEndian.Uint64(endpoint[:8]))
	h = mix(h ^ binary.BigEndian.Uint64(endpoint[8:]))
	h = mix(h ^ uint64(due.UnixMicro()))
	unit := time.Nanosecond
	if limit >= time.Millisecond {
		unit = time.Millisecond
	}
	units := uint64((limit-1)/unit) + 1  //nolint:gosec // Not negative; the whole units below the limit, zero included.
	return time.Duration(h%units) * unit //nolint:gosec // Below the limit.
}

// mix is the step and finalizer of SplitMix64: every input bit moves about half of the output bits.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
