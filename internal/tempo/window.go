package tempo

import (
	"math"
	"time"
)

// windowSteps is the number of steps of time into which a period is divided. At one run a second,
// the highest rate, a step of a day has 240 runs, which a byte can count.
const windowSteps = 360

// Window counts the runs of the past period of an endpoint's own budget. The zero value has
// counted none.
type Window struct {
	// Width is the length of a step; 0: nothing was counted.
	Width time.Duration
	// Newest is the number of the newest step with a run, counted from 1970.
	Newest int64
	// Counts are the runs of the newest step and of those before it, each at its number modulo
	// the length.
	Counts [windowSteps + 1]uint8
}

// count adds a run at an instant. Runs of another period are forgotten.
func (w *Window) count(at time.Time, period time.Duration) {
	if width := period / windowSteps; width != w.Width {
		*w = Window{Width: width}
	}
	step := w.step(at)
	for k := max(w.Newest+1, step-windowSteps); k <= step; k++ {
		w.Counts[k%int64(len(w.Counts))] = 0
	}
	w.Newest = max(w.Newest, step)
	if n := &w.Counts[w.Newest%int64(len(w.Counts))]; *n < math.MaxUint8 {
		*n++
	}
}

func (w *Window) step(at time.Time) int64 { return at.UnixNano() / int64(w.Width) }

// rest returns the shortest wait after the run that was counted last, at the instant given, after
// which one more run leaves at most so many in the past period. It is 0 if nothing was counted. A
// step counts until all of it is out of the period, because the instants of its runs are not known.
func (w *Window) rest(at time.Time, most int64) time.Duration {
	if w.Width <= 0 {
		return 0
	}
	room := most - 1
	for _, n := range w.Counts {
		room -= int64(n)
	}
	step := w.Newest
	for ; room < 0 && step < w.Newest+int64(len(w.Counts)); step++ {
		room += int64(w.Counts[(step+1)%int64(len(w.Counts))])
	}
	wait := time.Unix(0, step*int64(w.Width)).Sub(at)
	return (max(wait, 0) + time.Millisecond - 1).Truncate(time.Millisecond) // The ledger has milliseconds.
}
