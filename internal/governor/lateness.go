package governor

import "time"

const (
	// lateStart is the lateness up to which the schedule still counts from the due time.
	lateStart = time.Second
	// missedAfter is the lateness from which a cron occurrence counts as missed. It tolerates a
	// busy moment, but no outage.
	missedAfter = time.Minute
)

// NextAnchor returns the grid point after the first run of a slot. It is the slot, unless the run
// started over a second after planned, the instant with jitter and minimum. Then it is the start in
// whole milliseconds.
func NextAnchor(slot, planned, start time.Time) time.Time {
	if start.Sub(planned) <= lateStart {
		return slot
	}
	return start.Truncate(time.Millisecond)
}

// Misses reports whether a run that starts this late must be skipped. That applies to cron
// occurrences under the skip policy. Runs by a hint, a clamp, Retry-After or a user are useful even
// if late.
func (c CatchUp) Misses(source Source, late time.Duration) bool {
	return c == CatchUpSkip && late > missedAfter && (source == SourceBaselineCron || source == SourcePaused)
}
