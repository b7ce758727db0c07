package change

import (
	"encoding/binary"
	"errors"
	"time"
)

const (
	codecVersion = 1
	// headBytes and markBytes are the encoded sizes of a Watch without marks and of a mark.
	headBytes = 1 + 5*8 + 1
	markBytes = 2*8 + 2
)

// MaxEncoded is the maximum size of an encoded Watch.
const MaxEncoded = headBytes + maxMembers*markBytes

var errEncoding = errors.New("the state of the search for noise cannot be decoded")

// Encode returns the watch in the form that [Decode] reads, at most MaxEncoded bytes.
func (w Watch) Encode() []byte {
	out := make([]byte, 0, headBytes+len(w.marks)*markBytes)
	out = append(out, codecVersion)
	out = binary.BigEndian.AppendUint64(out, w.digest)
	for _, t := range []time.Time{w.at, w.until} {
		millis := int64(0)
		if !t.IsZero() {
			millis = t.UnixMilli()
		}
		out = binary.BigEndian.AppendUint64(out, uint64(millis))
	}
	for _, d := range []time.Duration{w.wide, w.near} {
		out = binary.BigEndian.AppendUint64(out, uint64(d.Milliseconds()))
	}
	out = append(out, byte(w.pairs))
	for _, m := range w.marks {
		out = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(out, m.id), m.value)
		out = append(out, m.wide, m.near)
	}
	return out
}

// Decode returns an encoded watch. No bytes are the zero Watch.
func Decode(text []byte) (Watch, error) {
	if len(text) == 0 {
		return Watch{}, nil
	}
	if len(text) < headBytes || len(text) > MaxEncoded || text[0] != codecVersion || (len(text)-headBytes)%markBytes != 0 {
		return Watch{}, errEncoding
	}
	read := func(i int) int64 { return int64(binary.BigEndian.Uint64(text[1+8*i:])) }
	w := Watch{
		digest: uint64(read(0)),
		at:     instant(read(1)),
		until:  instant(read(2)),
		wide:   time.Duration(read(3)) * time.Millisecond,
		near:   time.Duration(read(4)) * time.Millisecond,
		pairs:  int(text[headBytes-1]),
	}
	if w.pairs >= pairsBefore+echoes {
		return Watch{}, errEncoding
	}
	for rest := text[headBytes:]; len(rest) > 0; rest = rest[markBytes:] {
		w.marks = append(w.marks, mark{
			id:    binary.BigEndian.Uint64(rest),
			value: binary.BigEndian.Uint64(rest[8:]),
			wide:  rest[16],
			near:  rest[17],
		})
	}
	return w, nil
}

// instant returns the instant of a number of milliseconds; 0 is the zero instant.
func instant(millis int64) time.Time {
	if millis == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis).UTC()
}
