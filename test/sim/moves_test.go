package sim

import (
	"time"

	"github.com/google/uuid"

	"rubato/internal/claims"
	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/runs"
)

// lawful checks the invariants of every call.
func (w *world) lawful(c *changes) {
	w.t.Helper()
	w.legalRows(c)
	for _, s := range c.schedules {
		if s.before == nil || s.after == nil {
			continue
		}
		w.ensure(s.after.Token >= s.before.Token, "the token of %s went back", short(s.after.EndpointID)) // I4
		raised := s.after.Token > s.before.Token
		moved := !s.after.PlannedAt.Equal(s.before.PlannedAt) || !s.after.Slot.Equal(s.before.Slot) || s.after.tries() != s.before.tries()
		w.ensure(raised || !moved, "a new plan for %s kept the token", short(s.after.EndpointID))
		taken := s.after.ClaimedBy != nil && (s.before.ClaimedBy == nil || *s.before.ClaimedBy != *s.after.ClaimedBy)
		w.ensure(raised || !taken, "a new holder of %s kept the token", short(s.after.EndpointID))
	}
	for _, r := range c.history {
		w.ensure(r.before == nil, "a run of the history was changed") // I3
		id := runs.ID(r.after.ID)
		w.ensure(w.mirror.history[id] == nil, "run %s has a second row in the history", runName(id))
		w.ensure(id == runs.NewID(r.after.Slot, r.after.EndpointID, r.after.Attempt, r.after.InfraAttempt), "run %s has the ID of another", runName(id))
		if r.after.Status == runs.Succeeded { // I2 of slots: one accepted result.
			key := slotKey{endpoint: endpoints.ID(r.after.EndpointID), slot: r.after.Slot.UnixMicro()}
			w.ensure(w.mirror.succeeded[key] == runs.ID{}, "the due time of run %s has two accepted results", runName(id))
			w.mirror.succeeded[key] = id
		}
	}
}

// nothing fails the case if a call that must change nothing changed a row.
func (w *world) nothing(name string, c *changes) {
	w.t.Helper()
	n := len(c.rows) + len(c.schedules) + len(c.live) + len(c.history) + len(c.skips) + len(c.hints) + len(c.decisions) + len(c.workers)
	w.ensure(n == 0, "%s changed %d rows", name, n)
}

// only fails the case if a call changed rows outside the given tables.
func (w *world) only(name string, c *changes, tables ...string) {
	w.t.Helper()
	counts := map[string]int{
		"schedules": len(c.schedules), "live_runs": len(c.live), "runs": len(c.history), "hints": len(c.hints),
		"decisions": len(c.decisions), "workers": len(c.workers), "skips": len(c.skips), "items": len(c.oneOffs),
	}
	for _, table := range tables {
		delete(counts, table)
	}
	for table, n := range counts {
		w.ensure(n == 0, "%s changed %d rows of %s", name, n, table)
	}
}

// consistent checks the invariants between calls.
func (w *world) consistent() {
	w.t.Helper()
	for id, l := range w.mirror.live {
		run := runs.ID(l.RunID)
		w.ensure(w.mirror.history[run] == nil, "run %s is live and over", runName(run)) // I1, and one end for each run
		if s := w.mirror.schedules[id]; s != nil {
			w.ensure(s.Token == l.Token, "the live run of %s has token %d, its schedule %d", short(id), l.Token, s.Token)
			w.ensure(s.ClaimedBy != nil && *s.ClaimedBy == l.WorkerID, "the schedule of %s is not held by the worker of its live run", short(id))
			w.ensure(s.Slot.Equal(l.Slot) && s.tries() == l.tries(), "the live run of %s is not the planned one", short(id))
		}
	}
	for id, s := range w.mirror.schedules {
		said := w.mirror.ledger[id]
		w.ensure(said.at.Equal(s.PlannedAt) && said.source == s.Source,
			"%s is planned at %s by %s, the ledger says %s by %s", short(id), s.PlannedAt, s.Source, said.at, said.source)
		w.ensure(s.ClaimedBy != nil || s.DueAt.Equal(s.PlannedAt), "nobody holds %s, and it is not due when it is planned", short(id))
	}
}

// judgeClaim judges the move from planned to claimed.
func (w *world) judgeClaim(by *worker, r claims.Request, list []claims.Claim, c *changes) {
	w.t.Helper()
	now := w.now()
	w.only("a claim", c, "schedules")
	w.ensure(len(c.schedules) <= r.Limit, "a claim of up to %d took %d", r.Limit, len(c.schedules)) // I2
	w.ensure(len(list) == len(c.schedules), "a claim took %d and told of %d", len(c.schedules), len(list))
	told := map[endpoints.ID]claims.Claim{}
	for _, one := range list {
		told[endpoints.ID(one.EndpointID)] = one
	}
	for _, s := range c.schedules {
		id, before, after := endpoints.ID(s.after.EndpointID), s.before, s.after
		w.ensure(!before.DueAt.After(now.Add(r.Horizon)), "a claim took %s beyond the horizon", short(id))
		from := r.From
		if told[id].Priority < 0 && before.ClaimedBy == nil { // Its turn is a minute after its due time.
			from = from.Add(-time.Minute)
		}
		w.ensure(!before.DueAt.Before(from), "a claim took %s from before where it begins", short(id))
		if before.ClaimedBy != nil {
			w.ensure(!before.DueAt.After(now), "a claim took %s whose lock holds until %s", short(id), before.DueAt)
			w.ensure(w.mirror.live[id] == nil, "a claim took %s, whose run is live", short(id))
			w.reach("claim of an expired lock")
		}
		w.ensure(after.Token == before.Token+1 && after.ClaimedBy != nil && *after.ClaimedBy == by.id, "a claim of %s left it half taken", short(id))
		lock := min(time.Duration(after.LockMs)*time.Millisecond, r.LockTTL)
		w.ensure(after.DueAt.Equal(later(now, after.PlannedAt).Add(lock)), "the lock of %s ends at %s", short(id), after.DueAt)
		one := told[id]
		w.ensure(one.Token == after.Token && one.Slot.Equal(after.Slot) && one.PlannedAt.Equal(after.PlannedAt) && tries{one.Attempt, one.InfraAttempt} == after.tries(),
			"the claim of %s tells another story than the row", short(id))
	}
	if !w.racing && len(list) < r.Limit {
		w.noneLeft(r, c, now)
	}
}

// noneLeft checks that a claim with room left took every claimable endpoint.
func (w *world) noneLeft(r claims.Request, c *changes, now time.Time) {
	w.t.Helper()
	taken := map[uuid.UUID]bool{}
	for _, s := range c.schedules {
		taken[s.after.EndpointID] = true
	}
	for id, s := range w.mirror.schedules {
		open := s.ClaimedBy == nil && !s.DueAt.After(now.Add(r.Horizon)) ||
			s.ClaimedBy != nil && !s.DueAt.After(now) && w.mirror.live[id] == nil
		if open && s.DueAt.Before(r.From) {
			w.reach("claim above what is due")
			continue
		}
		w.ensure(taken[s.EndpointID] || !open, "a claim with room left %s", short(id))
	}
}

// judgeRelease judges the move from claimed back to planned.
func (w *world) judgeRelease(by *worker, list []claims.Claim, c *changes) {
	w.t.Helper()
	w.only("a release", c, "schedules")
	for _, s := range c.schedules {
		id := endpoints.ID(s.after.EndpointID)
		w.ensure(s.before.ClaimedBy != nil && *s.before.ClaimedBy == by.id, "a release freed %s of another worker", short(id))
		w.ensure(w.mirror.live[id] == nil, "a release freed %s, whose run is live", short(id))
		w.ensure(names(list, s.before), "a release under an old token freed %s", short(id))
		w.ensure(s.after.ClaimedBy == nil && s.after.DueAt.Equal(s.after.PlannedAt), "a release left %s half free", short(id))
		w.ensure(s.after.Token == s.before.Token+1, "a release of %s did not raise the token", short(id))
		w.reach("release")
	}
}

func names(list []claims.Claim, s *schedule) bool {
	for _, c := range list {
		if c.EndpointID == s.EndpointID && c.Token == s.Token {
			return true
		}
	}
	return false
}

// judgeHeartbeat checks that a heartbeat only extends locks.
func (w *world) judgeHeartbeat(by *worker, held []claims.FencedRun, kept [][16]byte, c *changes) {
	w.t.Helper()
	w.only("a heartbeat", c, "live_runs")
	w.ensure(len(kept) == len(c.live), "a heartbeat extended %d locks and told of %d", len(c.live), len(kept))
	for _, l := range c.live {
		w.ensure(l.before != nil && l.after != nil, "a heartbeat made or ended a run")
		run := runs.ID(l.after.RunID)
		asked := false
		for _, h := range held {
			asked = asked || h.RunID == l.before.RunID && h.Token == l.before.Token
		}
		w.ensure(asked && l.before.WorkerID == by.id, "a heartbeat extended run %s, which it does not hold", runName(run))
		w.ensure(l.before.LockedUntil.After(w.now()), "a heartbeat revived the lock of run %s", runName(run))
		want := earlier(w.now().Add(lockTTL), l.before.DeadlineAt.Add(5*time.Second))
		w.ensure(l.after.LockedUntil.Equal(want), "a heartbeat moved the lock of run %s to %s", runName(run), l.after.LockedUntil)
		w.reach("heartbeat")
	}
}

// judgeTakeOver judges the release of the claims of silent workers.
func (w *world) judgeTakeOver(silent time.Duration, freed int, c *changes) {
	w.t.Helper()
	w.only("a take-over", c, "schedules", "workers")
	w.ensure(freed == len(c.schedules), "a take-over freed %d claims and told of %d", len(c.schedules), freed)
	for _, s := range c.schedules {
		id := endpoints.ID(s.after.EndpointID)
		row := w.mirror.workers[*s.before.ClaimedBy]
		w.ensure(row != nil && row.HeartbeatAt.Add(silent).Before(w.now()), "a take-over freed %s of a worker that is not silent", short(id))
		w.ensure(w.mirror.live[id] == nil, "a take-over freed %s, whose run is live", short(id))
		w.ensure(s.after.ClaimedBy == nil && s.after.DueAt.Equal(s.after.PlannedAt), "a take-over left %s half free", short(id))
		w.ensure(s.after.Token == s.before.Token+1, "a take-over of %s did not raise the token", short(id))
		w.reach("take-over")
	}
}

// judgeChange judges a change by a user: a replan that revokes every claim, or a record during a
// live run.
func (w *world) judgeChange(id endpoints.ID, cause string, c *changes) {
	w.t.Helper()
	switch cause {
	case "pause", "archive":
		w.only(cause, c, "schedules", "hints", "decisions", "skips", "items", "runs")
		w.judgeWithdrawal(id, c)
	case "run_now":
		w.only(cause, c, "schedules", "hints", "decisions", "skips", "items")
		w.judgeAdded(id, c)
	default:
		w.only(cause, c, "schedules", "hints", "decisions", "skips")
	}
	w.ensure(len(c.schedules) == 1, "%s changed %d schedules", cause, len(c.schedules))
	before, after := c.schedules[0].before, c.schedules[0].after
	w.judgeSkips(id, before, after, c)
	if cause == "archive" {
		w.ensure(after == nil && len(c.decisions) == 0, "an archived endpoint has a schedule")
		if w.mirror.live[id] != nil {
			w.reach("archived under its run")
		}
		return
	}
	w.ensure(endpoints.ID(after.EndpointID) == id, "%s changed another endpoint", cause)
	if before != nil && (w.mirror.live[id] != nil || w.behind(id, cause, before, c)) {
		w.ensure(len(c.decisions) == 0, "%s of %s replanned while a run is live", cause, short(id))
		w.ensure(after.Token == before.Token && after.DueAt.Equal(before.DueAt) && after.PlannedAt.Equal(before.PlannedAt) &&
			after.Slot.Equal(before.Slot) && after.tries() == before.tries(), "%s of %s moved the plan of a live run", cause, short(id))
		w.reach("change while a run is live")
		return
	}
	w.ensure(len(c.decisions) == 1, "%s of %s made %d decisions", cause, short(id), len(c.decisions))
	w.ensure(before == nil || after.Token == before.Token+1, "%s of %s did not raise the token", cause, short(id))
	w.ensure(after.ClaimedBy == nil, "%s of %s left it claimed", cause, short(id))
	d := c.decisions[0].after
	w.ensure(d.Cause == cause, "%s is in the ledger as %s", cause, d.Cause)
	w.ensure(d.NextRunAt.Equal(after.PlannedAt) && d.NextSource == after.Source, "%s of %s planned other than it decided", cause, short(id))
	w.replay(id, d, c)
	w.judgePassed(id, c)
}

// behind reports whether a requested run waits behind the first attempt of another one-off run, so
// that the plan stays. A queued retry that came due since is planned again instead.
func (w *world) behind(id endpoints.ID, cause string, before *schedule, c *changes) bool {
	if cause != "run_now" || before.Source != "manual" || !before.tries().first() {
		return false
	}
	next := nextOneOff(w.queueAfter(id, c), time.Time{}, w.decided())
	return next.tries().first() && !next.Slot.Equal(c.oneOffs[0].after.Slot)
}

// replay repeats a decision from its recorded input, and compares that input with the rows.
func (w *world) replay(id endpoints.ID, d *decision, c *changes) {
	w.t.Helper()
	before, s := c.schedules[0].before, c.schedules[0].after
	spec := w.specOf(id, d.Version)
	hints := w.hintsAfter(id, c)
	asked := *s // The state that the decision knew: all but the part that it has accounted for itself.
	asked.Accounted = time.Time{}
	if before != nil {
		asked.Accounted = before.Accounted
	}
	in := inputOf(id, spec, &asked, hints, d.DecidedAt, governor.CauseReplan)
	if before != nil && spec.BaselineCron != "" && before.Anchor.IsZero() && !before.Slot.After(d.DecidedAt) {
		in.Accounted = w.mirror.born[id]
		if spec.CatchUp == governor.CatchUpAll {
			in.Accounted = later(in.Accounted, asked.Accounted)
		}
		w.reach("change while the first occurrence waits")
	}
	w.ensure(d.DecidedAt.Sub(w.now()) >= 0 && d.DecidedAt.Sub(w.now()) < time.Millisecond, "a decision of %s at %s", w.now(), d.DecidedAt)
	recorded, err := recordedInput(id, spec, d.Input, hints)
	w.ensure(err == nil, "reading the input of a decision: %v", err)
	governed := governor.Decide(recorded).At
	oneOff := nextOneOff(w.queueAfter(id, c), time.Time{}, d.DecidedAt)
	if !s.tries().first() && s.Source != "manual" {
		w.judgeKept(spec, before, s, earliest(governed, oneOff))
		return
	}
	if w.judgeOneOffPlan(oneOff, s, governed) {
		return
	}
	w.sane(in, s)
	for _, input := range []governor.Input{in, recorded} {
		again := decide(input, s)
		w.ensure(again.At.Equal(d.NextRunAt) && string(again.Source) == d.NextSource && again.Slot.Equal(s.Slot),
			"the replay of a decision for %s says %s by %s, the ledger %s by %s", short(id), again.At, again.Source, d.NextRunAt, d.NextSource)
		w.ensure(sameSteps(again.Steps, d.NextSteps), "the replay of a decision for %s took other steps: %v, not %s", short(id), again.Steps, d.NextSteps)
	}
}

// earliest returns the due time that a queued retry must precede: that of the governor, or that of
// the next one-off run. The first attempt of a one-off run precedes every retry, so the bound is
// the zero time then.
func earliest(governed time.Time, next *oneOff) time.Time {
	switch {
	case next == nil:
		return governed
	case next.tries().first():
		return time.Time{}
	default:
		return earlier(governed, next.NotBefore)
	}
}

// judgeKept judges a queued retry that a change kept, because it precedes the next due time.
func (w *world) judgeKept(spec endpoints.Spec, before, after *schedule, next time.Time) {
	w.t.Helper()
	w.reach("change while an attempt waits")
	id := after.EndpointID
	w.ensure(before != nil && after.tries() == before.tries() && after.Slot.Equal(before.Slot) && after.Source == before.Source,
		"a change of %s planned another attempt than the one that waited", short(id))
	w.ensure(after.Attempt <= spec.Retry.MaxAttempts && !after.PausedUntil.After(w.now()), "a change of %s kept an attempt against the policy", short(id))
	if before.InfraAttempt > before.LastInfra { // It waits because a run was lost.
		w.ensure(!bearsLoss(w.specOf(endpoints.ID(id), before.Version)) || bearsLoss(spec), "a change of %s kept an infrastructure attempt that may do harm", short(id))
		w.reach("change while an infrastructure attempt waits")
	}
	w.ensure(after.PlannedAt.Before(next), "a change of %s kept an attempt at %s, past the next due time %s", short(id), after.PlannedAt, next)
	w.ensure(!after.PlannedAt.Before(before.PlannedAt), "a change of %s moved an attempt from %s to %s", short(id), before.PlannedAt, after.PlannedAt)
}

func (w *world) specOf(id endpoints.ID, version int64) endpoints.Spec {
	w.t.Helper()
	known := w.model[id]
	w.ensure(known != nil, "a decision for the unknown endpoint %s", short(id))
	spec, found := known.specs[version]
	w.ensure(found, "a decision for %s used version %d, which nobody wrote", short(id), version)
	return spec
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
