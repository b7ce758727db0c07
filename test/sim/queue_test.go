package sim

import (
	"time"

	"rubato/internal/endpoints"
	"rubato/internal/governor"
)

// The bounds of the queue of due times.
const (
	queueLimit = 100
	queueReach = 24 * time.Hour
)

func (w *world) queues(id endpoints.ID, s *schedule) bool {
	return w.specOf(id, s.Version).Overlap == governor.OverlapQueue
}

// hasQueue reports whether due times wait behind the last run: they passed before its end, and are
// neither run nor recorded.
func hasQueue(spec endpoints.Spec, s *schedule) bool {
	return spec.Overlap == governor.OverlapQueue && s.Accounted.Before(s.LastFinished)
}

// queuedFirst reports whether a due time of an interval waits in the queue. at is the candidate
// before the queue; oneShot: of a one-shot hint, which precedes the grid.
func queuedFirst(in governor.Input, at time.Time, oneShot bool) bool {
	until := earlier(in.QueuedUntil, in.Now)
	if oneShot && !at.After(until) {
		return true
	}
	first := following(in, in.Anchor)
	for least := later(in.Accounted, in.Now.Add(-queueReach-1)); !first.After(least); {
		first = following(in, first)
	}
	return !first.After(until)
}

// judgeQueue checks that the first due time that passed under a run, and is on no record, keeps its
// turn: it is planned, or a one-off run goes before it. A pause and the bounds end the queue.
func (w *world) judgeQueue(in governor.Input, before, after *schedule, c *changes) {
	w.t.Helper()
	id := endpoints.ID(after.EndpointID)
	if w.jumps > 0 || !w.queues(id, after) || in.PausedUntil.After(in.Now) {
		return
	}
	first := following(in, in.Anchor)
	if first.After(in.Now) || !first.After(before.Accounted) {
		return
	}
	n := 0
	for at := first; !at.After(in.Now) && n <= queueLimit; at = following(in, at) {
		n++
	}
	if n > queueLimit || first.Before(in.Now.Add(-queueReach)) {
		w.reach("queue beyond its bounds")
		return
	}
	w.ensure(!w.covered(id, first, c), "the due time %s of %s was queued and is recorded as skipped", first, short(id))
	w.ensure(after.Accounted.Before(first), "the due time %s of %s is queued, and all up to %s is accounted for", first, short(id), after.Accounted)
	w.ensure(after.Source == "manual" || !after.Slot.After(first), "the due time %s of %s lost its turn to %s", first, short(id), after.Slot)
	w.reach("due time queued")
}
