// Package governor decides when an endpoint runs next, and why.
//
// [Decide] is the only source of due times of a schedule. It is called at the finish of a run by a
// worker or the sweeper, and after a new hint, a pause, a resume, an edit and a reset of the
// failure count. Two kinds of runs bypass it: a manual run, and a retry of a failed due time. A
// decision is a pure function of its [Input]: there is no clock, random source, I/O or log in this
// package. Therefore a stored decision can be replayed bit for bit.
//
// The rules apply in a fixed order, each to the result of the previous one: baseline, change rate,
// hints, queue, headers of the target, Retry-After, overrun, jitter, clamps, breaker of the host,
// pause. Every rule that applies adds a [Step]. The steps explain a run's due time to users.
//
// No input causes a panic or an overflow: instants outside the year 1 to [Indefinite] are moved to
// the nearer end, and sums stop at [Indefinite].
package governor

import "time"

// Indefinite is the end of an indefinite pause, and the due time of an endpoint without further
// occurrence. It is the latest possible decision, because the database rejects later due times.
var Indefinite = time.Date(2199, time.January, 1, 0, 0, 0, 0, time.UTC)

// Decide returns the next due time of an endpoint in UTC. It is never before in.Now and never after
// [Indefinite], which wins if in.Now is later still. Equal inputs give equal decisions. It is safe
// for concurrent use if the input's [Cron] is.
func Decide(in Input) Decision {
	p := newPlan(in)
	p.baseline()
	p.changeRate()
	p.intervalHint()
	p.oneShot()
	p.queue()
	p.target()
	p.retryAfter()
	p.overrun()
	p.jitter()
	p.clamp()
	p.circuitOpen()
	p.pause()
	p.end()
	return p.decision()
}
