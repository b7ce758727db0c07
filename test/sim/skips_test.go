package sim

import (
	"maps"
	"slices"
	"time"

	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/runs"
)

func skipsOf(id endpoints.ID, c *changes) []*pastRun {
	var list []*pastRun
	for _, s := range c.skips {
		if endpoints.ID(s.EndpointID) == id {
			list = append(list, s)
		}
	}
	return list
}

// decided returns the instant of a decision: now, rounded up to whole milliseconds.
func (w *world) decided() time.Time {
	return w.now().Add(999 * time.Microsecond).Truncate(time.Millisecond)
}

// judgeSkips checks the records of skipped due times: each due time is in exactly one record, and
// none that ran is in any.
func (w *world) judgeSkips(id endpoints.ID, before, after *schedule, c *changes) {
	w.t.Helper()
	var since time.Time
	if before != nil {
		since = before.Accounted
	}
	for _, s := range skipsOf(id, c) {
		reasons := map[runs.Reason]bool{runs.OverlapSkipped: true, runs.PauseSkipped: true, runs.MisfireSkipped: true}
		w.ensure(s.Status == runs.Skipped && reasons[s.Reason] && s.Token == 0 && s.NextRunAt.IsZero(), "a skip of %s is kept as %+v", short(id), *s)
		w.ensure(runs.ID(s.ID) == runs.NewID(s.Slot, s.EndpointID, 0, 0), "a skip of %s has another's ID", short(id))
		w.ensure(s.SkippedCount > 0 && !s.SkippedFrom.After(s.Slot), "a skip of %s counts %d from %s to %s", short(id), s.SkippedCount, s.SkippedFrom, s.Slot)
		w.ensure(s.SkippedFrom.After(since), "a due time of %s is accounted for twice: %s was skipped, all up to %s were", short(id), s.SkippedFrom, since)
		w.ensure(!s.Slot.After(w.decided()), "a due time of %s was skipped before it passed", short(id))
		if w.jumps == 0 {
			w.ensure(!w.ran(id, s, c), "a due time of %s from %s to %s has run and is skipped", short(id), s.SkippedFrom, s.Slot)
		}
		since = s.Slot
		w.reach(string(s.Reason))
	}
	if before != nil && after != nil {
		w.ensure(!after.Accounted.Before(since) && (w.jumps > 0 || !after.Accounted.After(w.decided())),
			"%s is accounted for up to %s, skipped up to %s", short(id), after.Accounted, since)
	}
}

// ran reports whether a run serves a due time within a skip. A one-off run serves none.
func (w *world) ran(id endpoints.ID, s *pastRun, c *changes) bool {
	list := slices.Collect(maps.Values(w.mirror.history))
	for _, r := range c.history {
		list = append(list, r.after)
	}
	for _, r := range list {
		if r.Slot.Equal(s.FinishedAt) { // Planned at once in the very millisecond in which that became a record.
			continue
		}
		if endpoints.ID(r.EndpointID) == id && r.Source != "manual" && !r.Slot.Before(s.SkippedFrom) && !r.Slot.After(s.Slot) {
			return true
		}
	}
	return false
}

// covered reports whether a due time is recorded as skipped, by this call or before.
func (w *world) covered(id endpoints.ID, at time.Time, c *changes) bool {
	for _, s := range append(skipsOf(id, c), w.mirror.skipped[id]...) {
		if !at.Before(s.SkippedFrom) && !at.After(s.Slot) {
			return true
		}
	}
	return false
}

// judgePassed checks that a passed due time that a change drops is recorded, unless an immediate
// run serves it.
func (w *world) judgePassed(id endpoints.ID, c *changes) {
	w.t.Helper()
	before, after := c.schedules[0].before, c.schedules[0].after
	if before == nil || w.jumps > 0 || before.Source == "manual" || !before.tries().first() || before.Slot.After(w.decided()) || w.catchesUp(id, after) {
		return
	}
	if !before.Slot.After(before.Accounted) { // Planned at once in the millisecond up to which all is on record, so it stands for none.
		return
	}
	if w.queues(id, after) && after.Accounted.Before(before.Slot) { // It still waits for its turn.
		w.reach("queue behind a one-off run")
		return
	}
	atOnce := after.Source != "manual" && (after.Slot.Equal(w.decided()) || after.Slot.Equal(before.Slot))
	w.ensure(atOnce || w.covered(id, before.Slot, c), "the due time %s of %s was dropped without a record", before.Slot, short(id))
	w.reach("due time dropped")
}

// judgeOverrun checks that the first due time that passed before the end of a run is recorded,
// unless an immediate run serves it.
func (w *world) judgeOverrun(in governor.Input, before, after *schedule, c *changes) {
	w.t.Helper()
	id := endpoints.ID(after.EndpointID)
	if w.jumps > 0 || w.catchesUp(id, after) || w.queues(id, after) {
		return
	}
	first, second := following(in, in.Anchor), following(in, following(in, in.Anchor))
	if first.After(in.Now) || !first.After(before.Accounted) {
		return
	}
	atOnce := after.Source != "manual" && after.tries().first() && (after.Slot.Equal(in.Now) || after.Slot.Equal(first)) && second.After(in.Now)
	w.ensure(atOnce || w.covered(id, first, c), "the due time %s of %s passed under its run without a record", first, short(id))
	w.reach("due time passed under a run")
}

// following returns the due time after an anchor of a schedule.
func following(in governor.Input, anchor time.Time) time.Time {
	every := in.Baseline.Interval
	for range min(in.Failures, 5) {
		every *= 2
	}
	next := anchor.Add(every)
	if h := in.IntervalHint; h != nil && h.ExpiresAt.After(in.Now) {
		next = anchor.Add(h.Interval)
	} else if in.Baseline.Cron != nil {
		next = in.Baseline.Cron.Next(anchor)
	}
	if in.Min > 0 {
		next = later(next, anchor.Add(in.Min))
	}
	if in.Max > 0 {
		next = earlier(next, anchor.Add(in.Max))
	}
	return next
}

func (w *world) catchesUp(id endpoints.ID, s *schedule) bool {
	spec := w.specOf(id, s.Version)
	return spec.BaselineCron != "" && spec.CatchUp == governor.CatchUpAll
}
