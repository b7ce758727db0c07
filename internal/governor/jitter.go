package governor

import (
	"encoding/binary"
	"time"
)

// offset returns the jitter of an endpoint at a due time: at least 0 and below limit, in whole
// milliseconds if limit is at least one. It is 0 if limit is not positive. It is a hash of endpoint
// and due time, so that a replay reproduces it and simultaneous endpoints spread evenly.
//
// The hash must not change, because stored decisions are replayed with it. Its input is the ID as
// two big-endian numbers and the due time in microseconds since 1970, each mixed into the state by
// mix. The database stores instants in microseconds.
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
	units := uint64((limit-1)/unit) + 1
	return time.Duration(h%units) * unit
}

// mix is the step and finalizer of SplitMix64: every input bit affects about half of the output
// bits.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
