package governor

import "time"

const (
	// lateStart is how late a run may start while the schedule still counts from its due time.
	lateStart = time.Second
	// missedAfter is how late an occurrence of a cron may start that is skipped when it was missed: room for a busy moment, none for an outage.
	missedAfter = time.Minute
)

// NextAnchor returns the grid point that the schedule counts from after the first run of a slot: the slot, or the start, in whole
// milliseconds, of a run that started over a second after the instant it was planned for, which jitter and the minimum put after its slot.
func NextAnchor(slot, planned, start time.Time) time.Time {
	if start.Sub(planned) <= lateStart {
		return slot
	}
	return start.Truncate(time.Millisecond)
}

// Misses reports whether a run that starts this late after the instant it was planned for must not be sent any more. It is about occurrences
// of a cron whose policy is to skip what was missed; a run that a hint, a clamp, the target or a user asked for is wanted late, too.
func (c CatchUp) Misses(source Source, late time.Duration) bool {
	return c == CatchUpSkip && late > missedAfter && (source == SourceBaselineCron || source == SourcePaused)
}
