package tempo

import (
	"encoding/binary"
	"errors"
	"math"
	"time"
)

// version is the first byte of a stored state. A state of another version counts as none, because
// the filter learns again within hours.
const version = 2

const (
	// size is the length of a stored state in bytes: version, filter, instants, digest, numbers and
	// whether the budget is used up.
	size = 1 + 4*(Hazards*Rates+Rates+Hazards) + 8*3 + 4*4 + 8*2 + 1
	// windowSize is the length of the runs of the past period, which only an endpoint with a budget
	// of its own has.
	windowSize = 8*2 + windowSteps + 1
)

// ErrUnknownState reports a stored state of another version or length.
var ErrUnknownState = errors.New("stored tempo has another version")

// Encode returns the stored form of a state, below 1 KiB, and nil for a nil state. Its length
// depends only on whether the endpoint has a budget of its own. Instants are kept in whole
// microseconds.
func (s *State) Encode() []byte {
	if s == nil {
		return nil
	}
	out := make([]byte, 0, size+windowSize)
	out = append(out, version)
	for _, p := range s.Filter.numbers() {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(*p))
	}
	out = binary.LittleEndian.AppendUint64(out, micros(s.LookedAt))
	out = binary.LittleEndian.AppendUint64(out, micros(s.RanAt))
	out = binary.LittleEndian.AppendUint64(out, s.Digest)
	for _, v := range []float64{s.Root, s.Surplus, s.Reserve, s.Price} {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(v)))
	}
	out = binary.LittleEndian.AppendUint64(out, uint64(s.Age))
	out = binary.LittleEndian.AppendUint64(out, uint64(s.Wait))
	if s.UsedUp {
		out = append(out, 1)
	} else {
		out = append(out, 0)
	}
	return s.Past.appendTo(out)
}

// Decode returns a stored state.
func Decode(stored []byte) (State, error) {
	if (len(stored) != size && len(stored) != size+windowSize) || stored[0] != version {
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
	s.Root, s.Surplus, s.Reserve, s.Price = float64(four()), float64(four()), float64(four()), float64(four())
	s.Age, s.Wait = time.Duration(eight()), time.Duration(eight())
	s.UsedUp = rest[0] == 1
	s.Past = readWindow(rest[1:])
	return s, nil
}

// appendTo appends the stored form of a window, which is empty if it counted nothing.
func (w *Window) appendTo(out []byte) []byte {
	if w.Width <= 0 {
		return out
	}
	out = binary.LittleEndian.AppendUint64(out, uint64(w.Width))
	out = binary.LittleEndian.AppendUint64(out, uint64(w.Newest))
	return append(out, w.Counts[:]...)
}

// readWindow reads a stored window of the right length, or none.
func readWindow(stored []byte) (w Window) {
	if len(stored) == 0 {
		return w
	}
	w.Width = time.Duration(binary.LittleEndian.Uint64(stored))
	w.Newest = int64(binary.LittleEndian.Uint64(stored[8:]))
	copy(w.Counts[:], stored[16:])
	return w
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
