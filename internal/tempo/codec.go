package tempo

import (
	"encoding/binary"
	"errors"
	"math"
	"time"
)

// version is the first byte of a stored state. A state of another version counts as none, because
// the filter learns again within hours.
const version = 1

// size is the length of a stored state in bytes: version, filter, instants, digest and numbers.
const size = 1 + 4*(Hazards*Rates+Rates+Hazards) + 8*3 + 4*3 + 8*2

// ErrUnknownState reports a stored state of another version or length.
var ErrUnknownState = errors.New("stored tempo has another version")

// Encode returns the stored form of a state, always of the same length below 1 KiB, and nil for a
// nil state. Instants are kept in whole microseconds.
func (s *State) Encode() []byte {
	if s == nil {
		return nil
	}
	out := make([]byte, 0, size)
	out = append(out, version)
	for _, p := range s.Filter.numbers() {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(*p))
	}
	out = binary.LittleEndian.AppendUint64(out, micros(s.LookedAt))
	out = binary.LittleEndian.AppendUint64(out, micros(s.RanAt))
	out = binary.LittleEndian.AppendUint64(out, s.Digest)
	for _, v := range []float64{s.Root, s.Surplus, s.Price} {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(v)))
	}
	out = binary.LittleEndian.AppendUint64(out, uint64(s.Age))
	return binary.LittleEndian.AppendUint64(out, uint64(s.Wait))
}

// Decode returns a stored state.
func Decode(stored []byte) (State, error) {
	if len(stored) != size || stored[0] != version {
		return State{}, ErrUnknownState
	}
	var s State
	rest := stored[1:]
	four := func() float32 {
		v := math.Float32frombits(binary.LittleEndian.Uint32(rest))
		rest = rest[4:]
		return v
	}
	eight := func() uint64 {
		v := binary.LittleEndian.Uint64(rest)
		rest = rest[8:]
		return v
	}
	for _, p := range s.Filter.numbers() {
		*p = four()
	}
	s.LookedAt, s.RanAt, s.Digest = instant(eight()), instant(eight()), eight()
	s.Root, s.Surplus, s.Price = float64(four()), float64(four()), float64(four())
	s.Age, s.Wait = time.Duration(eight()), time.Duration(eight())
	return s, nil
}

// numbers returns the places of the filter's numbers in their stored order.
func (f *Filter) numbers() []*float32 {
	list := make([]*float32, 0, Hazards*Rates+Rates+Hazards)
	for h := range f.Now {
		for j := range f.Now[h] {
			list = append(list, &f.Now[h][j])
		}
	}
	for j := range f.LongRun {
		list = append(list, &f.LongRun[j])
	}
	for h := range f.Weight {
		list = append(list, &f.Weight[h])
	}
	return list
}

// micros returns an instant in microseconds since 1970; 0: the zero instant.
func micros(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return uint64(t.UnixMicro())
}

func instant(us uint64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(us)).UTC()
}
