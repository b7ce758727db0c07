package sim

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"rubato/internal/endpoints"
	"rubato/internal/runs"
)

// oneOff is a row of one_off_items.
type oneOff struct {
	EndpointID   uuid.UUID `json:"endpoint_id"`
	Slot         time.Time `json:"slot"`
	NotBefore    time.Time `json:"not_before"`
	Attempt      int       `json:"attempt"`
	InfraAttempt int       `json:"infra_attempt"`
	Priority     int       `json:"priority"`
}

func (o *oneOff) tries() tries { return tries{o.Attempt, o.InfraAttempt} }

func (o *oneOff) key() slotKey { return slotKey{endpoints.ID(o.EndpointID), o.Slot.UnixMilli()} }

// queueAfter returns the one-off items of an endpoint after a call, by slot in milliseconds.
func (w *world) queueAfter(id endpoints.ID, c *changes) map[int64]*oneOff {
	after := maps.Clone(w.mirror.oneOffs)
	for _, o := range c.oneOffs {
		put(after, o, (*oneOff).key)
	}
	queue := map[int64]*oneOff{}
	for key, o := range after {
		if key.endpoint == id {
			queue[key.slot] = o
		}
	}
	return queue
}

// nextOneOff returns the head of the queue: startable items before those that wait for a retry,
// then higher priority, then older. The item in flight is not in the queue.
func nextOneOff(queue map[int64]*oneOff, own time.Time, now time.Time) *oneOff {
	var list []*oneOff
	for _, o := range queue {
		if !o.Slot.Equal(own) {
			list = append(list, o)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return slices.MinFunc(list, func(a, b *oneOff) int {
		return cmp.Or(later(a.NotBefore, now).Compare(later(b.NotBefore, now)), cmp.Compare(b.Priority, a.Priority), a.Slot.Compare(b.Slot))
	})
}

// judgeOneOffPlan checks that the plan is the head of the one-off queue if that precedes the
// governor's due time. It reports whether it does.
func (w *world) judgeOneOffPlan(next *oneOff, after *schedule, governed time.Time) bool {
	w.t.Helper()
	id := after.EndpointID
	if next == nil || !next.tries().first() && !next.NotBefore.Before(governed) {
		w.ensure(after.Source != "manual", "a one-off run of %s is planned and none is next", short(id))
		return false
	}
	w.ensure(after.Source == "manual" && after.Slot.Equal(next.Slot) && after.PlannedAt.Equal(next.NotBefore) && after.tries() == next.tries(),
		"the one-off run of %s for %s is next, planned is %s by %s", short(id), next.Slot, after.Slot, after.Source)
	w.reach("one-off run planned")
	if !next.tries().first() {
		w.reach("one-off run planned again")
	}
	return true
}

// judgeOwnItem judges the item of a finished one-off run, and reports whether it waits for another
// attempt.
func (w *world) judgeOwnItem(run runs.Run, spec endpoints.Spec, s *schedule, c *changes) (again bool) {
	w.t.Helper()
	key := slotKey{endpoints.ID(run.EndpointID), run.ScheduledFor.UnixMilli()}
	for _, o := range c.oneOffs {
		held := runOfItem(o) == key
		w.ensure(held || w.endsAnother(o, c), "the end of run %s changed another item", runName(run.ID))
	}
	item := w.queueAfter(endpoints.ID(run.EndpointID), c)[key.slot]
	if run.Source != "manual" {
		return false
	}
	was := w.mirror.oneOffs[key]
	if was == nil { // Withdrawn during its run.
		w.ensure(item == nil, "the item of run %s came back", runName(run.ID))
		w.reach("withdrawn during its run")
		return false
	}
	lost, retry := w.lossAllowed(run, spec, s), w.retryAllowed(run, spec, s)
	w.ensure((lost || retry) == (item != nil), "run %s may have another attempt: %t; its item is there: %t", runName(run.ID), lost || retry, item != nil)
	if item == nil {
		return false
	}
	want := tries{run.Attempt + 1, run.InfraAttempt}
	least, most := notBefore(spec, s, w.now()), notBefore(spec, s, w.now().Add(spec.Retry.MaxBackoff+time.Millisecond))
	if lost {
		w.reach("one-off run lost and tried again")
		want = tries{run.Attempt, run.InfraAttempt + 1}
		short, long := lossWait(run)
		least, most = notBefore(spec, s, w.now().Add(short)), notBefore(spec, s, w.now().Add(long+time.Millisecond))
	}
	w.ensure(item.tries() == want && item.Priority == was.Priority, "the item of run %s waits for attempt %v", runName(run.ID), item.tries())
	w.ensure(!item.NotBefore.Before(least) && !item.NotBefore.After(most), "the item of run %s waits until %s, not %s to %s", runName(run.ID), item.NotBefore, least, most)
	return true
}

func (w *world) lossAllowed(run runs.Run, spec endpoints.Spec, before *schedule) bool {
	return wasLost(run) && run.InfraAttempt < lossBudget && !before.PausedUntil.After(w.decided()) && (!run.Outcome.MaybeSent || bearsLoss(spec))
}

func (w *world) retryAllowed(run runs.Run, spec endpoints.Spec, before *schedule) bool {
	return run.Outcome.Retryable() && run.Attempt < spec.Retry.MaxAttempts && !before.PausedUntil.After(w.decided()) &&
		(!run.Outcome.MaybeSent || spec.IdempotentMethod() || spec.Idempotent)
}

// endsAnother reports whether a change of an item belongs to another run that the same call ended.
func (w *world) endsAnother(o change[oneOff], c *changes) bool {
	return slices.ContainsFunc(c.history, func(r change[pastRun]) bool {
		return r.after != nil && slotKey{endpoints.ID(r.after.EndpointID), r.after.Slot.UnixMilli()} == runOfItem(o)
	})
}

func runOfItem(o change[oneOff]) slotKey {
	if o.after != nil {
		return o.after.key()
	}
	return o.before.key()
}

// judgeWithdrawal checks that a pause and an archiving withdraw every item, and record each except
// the one in flight.
func (w *world) judgeWithdrawal(id endpoints.ID, c *changes) {
	w.t.Helper()
	w.ensure(len(w.queueAfter(id, c)) == 0, "items of %s are left", short(id))
	recorded := map[int64]bool{}
	for _, r := range c.history {
		r := r.after
		w.ensure(r.Status == runs.Skipped && r.Reason == runs.Withdrawn && r.Source == "manual" && r.NextRunAt.IsZero(), "a withdrawal is kept as %+v", *r)
		w.ensure(runs.ID(r.ID) == runs.NewID(r.Slot, r.EndpointID, r.Attempt, r.InfraAttempt), "a withdrawn run of %s has another's ID", short(id))
		recorded[r.Slot.UnixMilli()] = true
		w.reach("withdrawn")
	}
	for key := range w.mirror.oneOffs {
		if key.endpoint != id {
			continue
		}
		live := w.mirror.live[id]
		own := live != nil && live.Source == "manual" && live.Slot.UnixMilli() == key.slot
		w.ensure(recorded[key.slot] != own, "the withdrawal of an item of %s is on record: %t; it is in flight: %t", short(id), recorded[key.slot], own)
	}
}

// judgeAdded checks that a request adds one item with a unique slot.
func (w *world) judgeAdded(id endpoints.ID, c *changes) {
	w.t.Helper()
	w.ensure(len(c.oneOffs) == 1 && c.oneOffs[0].before == nil, "a request for a run of %s made %d changes of items", short(id), len(c.oneOffs))
	o := c.oneOffs[0].after
	w.ensure(endpoints.ID(o.EndpointID) == id && o.tries().first() && o.NotBefore.Equal(o.Slot), "a request for a run of %s is kept as %+v", short(id), *o)
	w.ensure(w.mirror.oneOffs[o.key()] == nil && w.mirror.history[runs.NewID(o.Slot, id, 1, 0)] == nil, "a one-off run of %s has the slot of another run", short(id))
	live := w.mirror.live[id]
	w.ensure(live == nil || !live.Slot.Equal(o.Slot), "a one-off run of %s has the slot of the run in flight", short(id))
	if len(w.queueAfter(id, c)) > 1 {
		w.reach("one-off runs queue")
	}
}
