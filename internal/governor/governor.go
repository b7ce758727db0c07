// Package governor decides when an endpoint runs next, and why.
//
// [Decide] is the only place where the due time of a schedule comes from: a finished run, whoever finished it, a new hint, a
// pause, a resume, an edited schedule and a reset failure count all ask it. Only two kinds of runs are planned past it: one
// that somebody asked for now, and another attempt of a due time that failed. A decision is a function of its [Input] alone. There is no
// clock, no random source, no I/O and no log in here, so a decision that was kept can be replayed bit for bit.
//
// The rules apply in a fixed order, each on what the one before left: baseline, hints, the wait that the target asked for,
// the overrun floor, jitter, clamps, pause. Every rule that applied leaves a [Step], and the steps are the answer to
// "why did it run then?".
//
// No input makes it panic and no arithmetic overflows: instants outside the year 1 to [Indefinite] are moved to the nearer
// end, and sums stop at [Indefinite].
package governor

import "time"

// Indefinite is the instant that "paused indefinitely" means and that an endpoint with no further occurrence is due at.
// No decision is later: it lies below the bound that the database checks on due times.
var Indefinite = time.Date(2199, time.January, 1, 0, 0, 0, 0, time.UTC)

// Decide returns when the endpoint runs next. The answer is in UTC, never before in.Now and never after [Indefinite],
// which wins where in.Now is later still. The same input always has the same answer. It is safe for concurrent use as far
// as the input's [Cron] is, and it calls nothing else of its caller's.
func Decide(in Input) Decision {
	p := newPlan(in)
	p.baseline()
	p.intervalHint()
	p.oneShot()
	p.retryAfter()
	p.overrun()
	p.jitter()
	p.clamp()
	p.pause()
	return p.decision()
}
