package governor

import "time"

// Cause is the event that needs a decision. Any unknown value means finish.
type Cause string

// The causes. A finish leaves a full interval after a run that overran its next due time. A replan
// makes an overdue endpoint due at once, so that a shorter hint or a resume takes effect
// immediately.
const (
	CauseFinish Cause = "finish" // a worker or the sweeper ended a run; also the zero value
	CauseReplan Cause = "replan" // the schedule changed otherwise: hint, pause, resume, edit or reset
)

// CatchUp is the misfire policy: what happens to cron occurrences that passed without a run. Any
// unknown value means once.
type CatchUp string

// The catch-up policies. The caller records occurrences without a run as skipped.
const (
	CatchUpOnce CatchUp = "once" // one run now for all of them; also the zero value
	CatchUpSkip CatchUp = "skip" // none; the next run is at the first occurrence from now on
	CatchUpAll  CatchUp = "all"  // one run each, oldest first; at most 100 of them and none older than 24 h
)

// Overlap is the policy for due times that pass while a run is in flight. Any unknown value means
// skip.
type Overlap string

// The overlap policies.
const (
	OverlapSkip  Overlap = "skip"  // they are recorded as skipped; also the zero value
	OverlapQueue Overlap = "queue" // one run each, oldest first; at most 100 of them and none older than 24 h
	OverlapAllow Overlap = "allow" // one run each at its due time, beside those in progress
)

// Cron is a parsed cron schedule with its time zone and its daylight saving policy.
type Cron interface {
	// Next returns the first occurrence strictly after an instant, or the zero time if there is
	// none. It must be a pure function and must not panic. A result that is not after the argument
	// counts as none.
	Next(after time.Time) time.Time
}

// Baseline is the user's schedule: an interval or a cron. If both are set, the cron wins.
type Baseline struct {
	Interval time.Duration // positive; otherwise one second
	Cron     Cron          // nil for an interval
}

// IntervalHint replaces the baseline and its backoff until it expires.
type IntervalHint struct {
	Interval  time.Duration // positive; otherwise the hint is ignored
	ExpiresAt time.Time     // fresh strictly before it
	Reason    string        // shown in the trace, cut when long
	// OutageSince makes this a hint for an outage that began then. It counts only while Failures is
	// positive. The wait is a tenth of the outage's age, at least Interval. Zero means an ordinary
	// hint.
	OutageSince time.Time
}

// ChangeRate replaces the interval of the baseline by the wait that suits the rate at which the
// target's answers change. While the target fails, a longer backoff of the baseline wins.
type ChangeRate struct {
	// Wait is the time from one run to the next; not positive: the rule is ignored.
	Wait time.Duration
	// Rate is the expected rate of change, in changes per second, for the trace.
	Rate float64
	// Price is the price of a run by which Wait was chosen, in change-seconds, for the trace.
	Price float64
	// Budget names the budget that sets the price, for the trace; cut when long.
	Budget string
	// UsedUp means that Wait is longer than the rate of change asks, because the runs of the past
	// period used up the budget, for the trace.
	UsedUp bool
}

// OneShotHint requests one run at an instant. It wins only if it is earlier than the candidate of
// the baseline or the interval hint, so it can advance a run but never delay one.
type OneShotHint struct {
	At        time.Time // time of the requested run
	ExpiresAt time.Time // fresh strictly before it
	Reason    string    // shown in the trace, cut when long
}

// Input is the complete input of a decision. Instants may be in any zone. The zero time means
// "none", except for Now.
type Input struct {
	EndpointID [16]byte  // hashed into the jitter
	Now        time.Time // database time of the decision
	Cause      Cause     // event that needs the decision
	// Anchor is the grid point from which the schedule counts: the slot of the last run, or its
	// start if that was over 1 s late. Zero means that the endpoint never ran.
	Anchor time.Time
	// StartAt is the begin of the schedule of an endpoint that never ran. A one-shot hint may
	// precede it. It is ignored after the first run.
	StartAt time.Time
	// EndAt is the end of the schedule: there is no due time at or after it. Zero means no end.
	EndAt    time.Time
	Baseline Baseline // the schedule
	CatchUp  CatchUp  // misfire policy of a cron
	// Failures is the number of consecutive failed runs, including the one that just ended.
	Failures int
	// Min is the shortest time from the anchor, and from LastStart, to the next run; not positive:
	// none.
	Min time.Duration
	// Max is the longest time from the anchor to the next run; not positive: none. The minimum
	// after LastStart wins over it.
	Max time.Duration

	ChangeRate   *ChangeRate   // nil: none
	IntervalHint *IntervalHint // nil: none
	OneShot      *OneShotHint  // nil: none
	// LastStart is the start of the last run in whole milliseconds. It is set only if there is a
	// minimum and the anchor is earlier; see [LastStart].
	LastStart time.Time
	// LastSlot is the last served due time. A one-shot hint at or before it has been used.
	LastSlot time.Time
	// RetryAfter is the end of the target's Retry-After, after [CapRetryAfter].
	RetryAfter time.Time
	// RetryAsked is the uncapped instant if RetryAfter was capped; zero otherwise.
	RetryAsked time.Time
	// TargetNext is the instant at which the last answer asked for the next run (Rubato-Next). It
	// replaces an earlier and a later candidate. At or before LastSlot it has been used.
	TargetNext time.Time
	// FreshUntil is the end of the freshness of the last answer (Cache-Control), before which
	// another request is useless. TargetNext wins over it.
	FreshUntil time.Time
	// OpenUntil is when the run may be tried that the breaker of the host just held back.
	OpenUntil time.Time
	// PausedUntil is the end of the pause, exclusive; Indefinite for a pause without end.
	PausedUntil time.Time
	// Accounted is the instant up to which every occurrence is recorded as run or skipped. Catch-up
	// and the queue start after it, and so does a cron that never ran. Zero means that none is
	// recorded.
	Accounted time.Time
	// QueuedUntil is the instant up to which due times wait in the queue, because they passed while
	// a run was in flight. Zero means that none waits.
	QueuedUntil time.Time
	// OnRecord is the instant up to which a catch-up run may not stand for an occurrence. Zero
	// means no limit.
	OnRecord time.Time
	// Jitter is the exclusive bound of the offset that spreads endpoints; not positive: none.
	Jitter time.Duration
	// Terse leaves out the texts of the steps of intervals, because they cost more than the rules.
	// It is for decisions that nobody reads, as in a simulation.
	Terse bool
}

// bounded returns a copy with all instants in UTC, in range and without monotonic reading.
func (in Input) bounded() Input {
	in.Now = bound(in.Now)
	in.Anchor = bound(in.Anchor)
	in.StartAt = bound(in.StartAt)
	in.EndAt = bound(in.EndAt)
	in.LastStart = bound(in.LastStart)
	in.LastSlot = bound(in.LastSlot)
	in.RetryAfter = bound(in.RetryAfter)
	in.RetryAsked = bound(in.RetryAsked)
	in.TargetNext = bound(in.TargetNext)
	in.FreshUntil = bound(in.FreshUntil)
	in.OpenUntil = bound(in.OpenUntil)
	in.PausedUntil = bound(in.PausedUntil)
	in.Accounted = bound(in.Accounted)
	in.OnRecord = bound(in.OnRecord)
	in.QueuedUntil = bound(in.QueuedUntil)
	return in
}

// bound moves an instant into the range in which sums cannot overflow: from the zero time to
// Indefinite. UTC also drops the monotonic reading, which would compare differently from a stored
// instant.
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

// add returns t + d, at most Indefinite. With t bounded the sum itself cannot overflow: a duration
// is under 293 years.
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
