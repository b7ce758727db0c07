package governor

import "time"

// Cause says which kind of event asks for the decision. Any other value means finish.
type Cause string

// The causes. A finish leaves a full interval after a run that overran its next due time; a replan acts at once on what is
// overdue, so that a tighter hint or a resume is felt immediately.
const (
	CauseFinish Cause = "finish" // a run just ended, or the sweeper ended it; the zero value means the same
	CauseReplan Cause = "replan" // hint, pause, resume, edit or reset: whatever changes the schedule outside a finish
)

// CatchUp is the policy for cron occurrences that passed while nothing ran. Any other value means once.
type CatchUp string

// The catch-up policies. Occurrences that a policy leaves out are for the caller to record as skipped.
const (
	CatchUpOnce CatchUp = "once" // one run now stands for all of them; the zero value means the same
	CatchUpSkip CatchUp = "skip" // none; the next run is at the first occurrence that is not before now
	CatchUpAll  CatchUp = "all"  // one run each, oldest first; at most 100 of them and none older than 24 h
)

// Cron is a parsed cron schedule in its zone and with its daylight saving policy.
type Cron interface {
	// Next returns the first occurrence strictly after the given instant, and the zero time when there is none. It must
	// be a function of its argument, and it must not panic. An answer that is not after the argument counts as none.
	Next(after time.Time) time.Time
}

// Baseline is the schedule that the user asked for: exactly one of an interval and a cron. Cron wins where both are set.
type Baseline struct {
	Interval time.Duration // positive; anything else is taken as one second
	Cron     Cron          // nil for an interval
}

// IntervalHint replaces the baseline, its backoff included, for as long as it is fresh.
type IntervalHint struct {
	Interval  time.Duration // positive; a hint with anything else is ignored
	ExpiresAt time.Time     // fresh strictly before it
	Reason    string        // shown in the trace, cut when long
	// OutageSince makes the hint one for an outage that began then: it counts only while Failures is positive, and waits a tenth of the
	// time since the outage began, at least Interval. Zero: an ordinary hint.
	OutageSince time.Time
}

// OneShotHint asks for one run at an instant. It competes with the candidate of the baseline or of the interval hint and
// wins only where it is earlier: it can advance a run, never hold one back.
type OneShotHint struct {
	At        time.Time // the run that is asked for
	ExpiresAt time.Time // fresh strictly before it
	Reason    string    // shown in the trace, cut when long
}

// Input is everything that a decision depends on. Instants may be in any zone; the zero time means "none" for all of them
// but Now.
type Input struct {
	EndpointID [16]byte      // seeds the jitter
	Now        time.Time     // the instant of the decision, in database time
	Cause      Cause         // what asks
	Anchor     time.Time     // grid point that the schedule counts from: the slot of the last run, or its start where it started over 1 s after it was due; zero: never run
	StartAt    time.Time     // where the baseline or an interval hint begins for an endpoint that has never run; a one-shot may come before it; ignored later
	Baseline   Baseline      // the schedule
	CatchUp    CatchUp       // what to do with missed cron occurrences
	Failures   int           // failed runs in a row, the one that just ended included; 0 after a success
	Min        time.Duration // shortest time from the anchor, and from LastStart, to the next run; not positive: none
	Max        time.Duration // longest time from the anchor to the next run; not positive: none; the minimum after LastStart wins over it

	IntervalHint *IntervalHint // nil: none
	OneShot      *OneShotHint  // nil: none
	LastStart    time.Time     // when the last run started, in whole milliseconds, where a minimum is set and the anchor is earlier; zero: the anchor
	LastSlot     time.Time     // the last due time already served; a one-shot at or before it has been used
	RetryAfter   time.Time     // the instant that the target asked to wait for, within what [CutWait] lets it
	RetryAsked   time.Time     // the instant that it named where RetryAfter was cut; zero: it was not cut
	PausedUntil  time.Time     // paused strictly before it; Indefinite or later: until somebody resumes
	Accounted    time.Time     // occurrences up to it are on record as run or skipped, so none of them is caught up on, and a cron that has never run begins after it; zero: none is
	OnRecord     time.Time     // a run at once for what a cron missed stands for no occurrence up to it; zero: for the last one that was missed
	Jitter       time.Duration // bound of the offset that spreads endpoints, exclusive; not positive: none
}

// bounded returns a copy of the input whose instants are all UTC, without monotonic reading, and in range.
func (in Input) bounded() Input {
	in.Now = bound(in.Now)
	in.Anchor = bound(in.Anchor)
	in.StartAt = bound(in.StartAt)
	in.LastStart = bound(in.LastStart)
	in.LastSlot = bound(in.LastSlot)
	in.RetryAfter = bound(in.RetryAfter)
	in.RetryAsked = bound(in.RetryAsked)
	in.PausedUntil = bound(in.PausedUntil)
	in.Accounted = bound(in.Accounted)
	in.OnRecord = bound(in.OnRecord)
	return in
}

// bound moves an instant into the years that sums cannot overflow from: the zero time to Indefinite. UTC
// also drops a monotonic reading, which would compare differently from the stored instant.
func bound(t time.Time) time.Time {
	t = t.UTC()
	switch {
	case t.After(Indefinite):
		return Indefinite
	case t.Before(time.Time{}):
		return time.Time{}
	}
	return t
}

// add returns t + d, at most Indefinite. With t bounded the sum itself cannot overflow: a duration is under 293 years.
func add(t time.Time, d time.Duration) time.Time {
	return earlier(t.Add(d), Indefinite)
}

// earlier returns the earlier of two instants.
func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// later returns the later of two instants.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
