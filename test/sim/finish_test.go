package sim

import (
	"slices"
	"time"

	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/runs"
)

// judgeStart judges the move from claimed to live. It writes only the columns of the run.
func (w *world) judgeStart(by *worker, seen int, starts []dispatch.Start, told []dispatch.Started, c *changes) {
	w.t.Helper()
	w.only("a start", c, "live_runs")
	made := map[runs.ID]*liveRun{}
	for _, l := range c.live {
		w.ensure(l.before == nil, "a start changed a live run")
		made[runs.ID(l.after.RunID)] = l.after
		w.judgeLock(startOf(starts, runs.ID(l.after.RunID)), l)
	}
	w.ensure(len(told) == len(made), "a start made %d runs and told of %d", len(made), len(told))
	for _, s := range told {
		l := made[s.RunID]
		w.ensure(l != nil, "a start told of run %s and did not make it", runName(s.RunID))
		w.judgeStarted(by, seen, startOf(starts, s.RunID), l)
	}
	if len(told) < len(starts) {
		w.reach("start refused")
	}
}

// judgeLock checks that a start is a HOT update: the lock of the claim stays the lock of the run,
// because due_at is indexed. A start that is late by more than 2 s extends it.
func (w *world) judgeLock(asked *dispatch.Start, l change[liveRun]) {
	w.t.Helper()
	run, s := runName(runs.ID(l.after.RunID)), w.mirror.schedules[endpoints.ID(l.after.EndpointID)]
	w.ensure(asked != nil && s != nil, "run %s was started and nobody asked for it", run)
	full := l.after.StartedAt.Add(min(asked.Execution+5*time.Second, lockTTL))
	if s.DueAt.Before(full.Add(-2 * time.Second)) {
		w.ensure(l.after.LockedUntil.Equal(full) && l.indexed == "due_at", "the lock of run %s, which starts late, ends at %s (changed: %s)", run, l.after.LockedUntil, l.indexed)
		w.reach("late start")
		return
	}
	w.ensure(l.after.LockedUntil.Equal(s.DueAt) && l.indexed == "", "the start of run %s is not HOT: it changed %q and its lock ends at %s", run, l.indexed, l.after.LockedUntil)
	w.reach("HOT start")
}

func startOf(starts []dispatch.Start, id runs.ID) *dispatch.Start {
	for i := range starts {
		if starts[i].RunID == id {
			return &starts[i]
		}
	}
	return nil
}

// judgeStarted judges one successful start.
func (w *world) judgeStarted(by *worker, seen int, asked *dispatch.Start, l *liveRun) {
	w.t.Helper()
	id, run, now := endpoints.ID(l.EndpointID), runs.ID(l.RunID), w.now()
	s := w.mirror.schedules[id]
	w.ensure(asked != nil && s != nil, "run %s was started and nobody asked for it", runName(run))
	w.ensure(w.mirror.live[id] == nil, "run %s was started beside another", runName(run)) // I1
	w.ensure(w.mirror.history[run] == nil, "run %s was started after its end", runName(run))
	w.ensure(l.Token == asked.Claim.Token && s.Token == l.Token, "run %s was started under token %d; the schedule has %d", runName(run), l.Token, s.Token)
	w.ensure(s.ClaimedBy != nil && *s.ClaimedBy == by.id && l.WorkerID == by.id, "run %s was started without a claim", runName(run))
	w.ensure(s.DueAt.After(now), "run %s was started after the lock of its claim", runName(run))
	w.ensure(!s.PlannedAt.After(now.Add(startSlack)), "run %s was started %s early by the database's clock", runName(run), s.PlannedAt.Sub(now)) // I7
	w.ensure(l.Slot.Equal(s.Slot) && l.tries() == s.tries(), "run %s stands for another due time than the plan", runName(run))
	w.ensure(run == runs.NewID(l.Slot, l.EndpointID, l.Attempt, l.InfraAttempt), "run %s has another's ID", runName(run))
	w.ensure(l.StartedAt.Equal(later(now, s.PlannedAt)) && l.DeadlineAt.Equal(l.StartedAt.Add(asked.Execution)),
		"run %s starts at %s and ends by %s", runName(run), l.StartedAt, l.DeadlineAt)
	if l.Source == string(governor.SourceManual) {
		item := w.mirror.oneOffs[slotKey{id, l.Slot.UnixMilli()}]
		w.ensure(item != nil && item.tries() == l.tries(), "run %s was started and has no item", runName(run)) // I15
	} else if seen == w.jumps { // A worker that has not noticed a step of the clock is early or late by it.
		w.ensure(!s.PlannedAt.After(now), "run %s was started %s early", runName(run), s.PlannedAt.Sub(now)) // I7
		w.ensure(!s.PausedUntil.After(now), "run %s was started while paused", runName(run))                 // I15
	}
	w.ensure(s.PausedUntil.Before(governor.Indefinite) || l.Source == "manual", "run %s was started while paused for good", runName(run))
	w.keepsMinimum(id, l)
	w.mirror.started[id] = l
	w.reach("start")
	if l.Attempt > 1 {
		w.reach("start of another attempt")
	}
	if l.InfraAttempt > 0 {
		w.reach("start of an infrastructure attempt")
	}
}

// keepsMinimum checks the minimum gap between two starts, with any lateness of the first and any
// skips between them. Due times are whole milliseconds.
func (w *world) keepsMinimum(id endpoints.ID, l *liveRun) {
	w.t.Helper()
	last, s := w.mirror.called[id], w.mirror.schedules[id]
	spec := w.specOf(id, s.Version)
	if last.IsZero() || w.jumps > 0 || l.Source == "manual" {
		return
	}
	gap := l.StartedAt.Sub(last)
	w.ensure(gap >= spec.MinInterval-time.Millisecond, "two starts of %s are %s apart, its minimum is %s", short(id), gap, spec.MinInterval) // I12
}

// judgeKeeps checks the bound on the due times that stay claimed after a finish.
func (w *world) judgeKeeps(keep dispatch.Keep, c *changes) {
	w.t.Helper()
	kept := 0
	for _, s := range c.schedules {
		if s.after != nil && s.after.ClaimedBy != nil {
			kept++
		}
	}
	w.ensure(kept <= keep.Most, "a finish kept %d due times, at most %d may stay", kept, keep.Most)
	if kept == keep.Most && kept < len(c.schedules) {
		w.reach("kept no more than its share")
	}
}

// judgeFinish judges the move from live to finished. Late answers must change nothing.
func (w *world) judgeFinish(f dispatch.Finish, done dispatch.Finished, c *changes) {
	w.t.Helper()
	w.only("a finish", c, "live_runs", "runs", "schedules", "hints", "skips", "items")
	w.ensure(len(c.live) == len(c.history), "a finish ended %d runs and kept %d", len(c.live), len(c.history))
	ended := map[runs.ID]bool{}
	for _, l := range c.live {
		w.ensure(l.after == nil, "a finish made a run live")
		id := runs.ID(l.before.RunID)
		ended[id] = true
		run := runOf(f.Runs, id)
		w.ensure(run != nil && run.ClaimToken == l.before.Token, "a finish ended run %s, which it does not hold", runName(id)) // I3
		w.judgeEnd(*run, f.Keep.Most > 0, c)
	}
	w.judgeKeeps(f.Keep, c)
	for _, run := range f.Runs {
		past := w.mirror.history[run.ID]
		switch {
		case ended[run.ID]:
			w.ensure(!late(done, run.ID) && !repeated(done, run.ID), "run %s was ended, and told as ended before", runName(run.ID))
		case repeated(done, run.ID):
			w.ensure(!late(done, run.ID), "run %s is told as repeated and as late", runName(run.ID))
			own := past != nil && past.Token == run.ClaimToken && past.Status == run.Outcome.Status && past.Reason == run.Outcome.Reason
			w.ensure(own, "run %s is told as recorded before, and is not", runName(run.ID))
			w.reach("repeated finish")
		default:
			w.ensure(late(done, run.ID), "run %s was not ended, and nobody was told", runName(run.ID))
			w.ensure(past != nil, "the answer to run %s is late, and nobody settled it", runName(run.ID)) // I20
			w.reach("late answer")
		}
	}
	kept, now := 0, map[[16]byte]bool{} // now: by this very call
	for _, s := range c.schedules {
		if s.after.ClaimedBy != nil {
			kept++
			now[s.after.EndpointID] = true
			w.ensure(*s.after.ClaimedBy == f.Worker, "a finish left %s with another worker", short(s.after.EndpointID))
			w.reach("kept claim")
		}
	}
	for _, claim := range done.Kept {
		if now[claim.EndpointID] || !repeatedEndpoint(f, done, claim.EndpointID) {
			continue
		}
		s := w.mirror.schedules[endpoints.ID(claim.EndpointID)]
		w.ensure(s != nil && s.Token == claim.Token && s.ClaimedBy != nil && *s.ClaimedBy == f.Worker, "a repeated finish told of a claim that is void")
		kept++
	}
	w.ensure(len(done.Kept) == kept, "a finish kept %d claims and told of %d", kept, len(done.Kept))
}

func late(done dispatch.Finished, id runs.ID) bool {
	return slices.Contains(done.Late, id)
}

func repeated(done dispatch.Finished, id runs.ID) bool {
	return slices.Contains(done.Repeated, id)
}

// repeatedEndpoint reports whether an earlier attempt of a finish had already recorded a run of the
// endpoint.
func repeatedEndpoint(f dispatch.Finish, done dispatch.Finished, id [16]byte) bool {
	return slices.ContainsFunc(f.Runs, func(run runs.Run) bool { return run.EndpointID == id && repeated(done, run.ID) })
}

func runOf(list []runs.Run, id runs.ID) *runs.Run {
	for i := range list {
		if list[i].ID == id {
			return &list[i]
		}
	}
	return nil
}

// judgeEnd judges the end of one run: its row in the history, and the next plan.
func (w *world) judgeEnd(run runs.Run, keeps bool, c *changes) {
	w.t.Helper()
	id := endpoints.ID(run.EndpointID)
	var past *pastRun
	for _, r := range c.history {
		if runs.ID(r.after.ID) == run.ID {
			past = r.after
		}
	}
	w.ensure(past != nil, "run %s ended and left no history", runName(run.ID))
	w.ensure(past.Status == run.Outcome.Status && past.Reason == run.Outcome.Reason, "run %s is kept as %s", runName(run.ID), past.Status)
	w.ensure(past.Token == run.ClaimToken && past.tries() == triesOf(run) && past.Slot.Equal(run.ScheduledFor), "run %s is kept as another", runName(run.ID))
	w.reach("run " + string(past.Status))
	before := w.mirror.schedules[id]
	var after *schedule
	for _, s := range c.schedules {
		if endpoints.ID(s.after.EndpointID) == id {
			after = s.after
		}
	}
	if before == nil {
		w.ensure(after == nil && past.NextRunAt.IsZero(), "an archived endpoint was planned")
		w.ensure(len(skipsOf(id, c)) == 0, "an archived endpoint has due times")
		return
	}
	w.judgeSkips(id, before, after, c)
	w.ensure(after != nil, "run %s ended and nothing follows", runName(run.ID))
	w.ensure(before.Slot.Equal(run.ScheduledFor) && before.tries() == triesOf(run), "run %s ended, planned was another", runName(run.ID))
	w.ensure(after.Token == before.Token+1, "the end of run %s did not raise the token", runName(run.ID))
	w.ensure(keeps || after.ClaimedBy == nil, "the end of run %s left its endpoint claimed", runName(run.ID))
	w.ensure(after.PausedUntil.Equal(before.PausedUntil) && after.Version == before.Version && after.LockMs == before.LockMs,
		"the end of run %s changed what users had written", runName(run.ID)) // I16
	w.ensure(past.NextRunAt.Equal(after.PlannedAt) && past.NextSource == after.Source && past.FailureCount == after.FailureCount,
		"the history of run %s tells another plan than the row", runName(run.ID))
	w.judgeNext(run, before, after, past, c)
}

// judgeNext derives the plan after a run independently, and compares it.
func (w *world) judgeNext(run runs.Run, before, after *schedule, past *pastRun, c *changes) {
	w.t.Helper()
	id, spec := endpoints.ID(run.EndpointID), w.specOf(endpoints.ID(run.EndpointID), before.Version)
	want := *before
	if run.Outcome.Status != runs.Skipped {
		want.LastCall = run.StartedAt.Truncate(time.Millisecond)
	}
	want.Anchor, want.LastSlot = later(before.Anchor, anchorAfter(spec, run, before)), later(before.LastSlot, run.ScheduledFor)
	if run.Outcome.StatusCode != 0 { // Without an answer the earlier wishes of the target still hold.
		want.RetryAfter = cutWait(spec, run)
		want.TargetNext, want.FreshUntil = run.Outcome.TargetNext, run.Outcome.FreshUntil
	}
	switch run.Outcome.Status {
	case runs.Succeeded:
		want.FailureCount = 0
	case runs.Failed, runs.TimedOut:
		want.FailureCount++
	case runs.Waiting, runs.Running, runs.Canceled, runs.Lost, runs.Skipped:
	}
	again := w.judgeOwnItem(run, spec, &want, c)
	if again {
		want.FailureCount = before.FailureCount
	}
	oneOff := nextOneOff(w.queueAfter(id, c), time.Time{}, w.decided())
	want.ManualAt = time.Time{}
	if oneOff != nil {
		want.ManualAt = oneOff.Slot
	}
	w.ensure(after.LastCall.Equal(want.LastCall), "after run %s the last call was at %s, not %s", runName(run.ID), after.LastCall, want.LastCall)
	w.ensure(after.Anchor.Equal(want.Anchor), "after run %s the schedule counts from %s, not %s", runName(run.ID), after.Anchor, want.Anchor)
	w.ensure(after.LastSlot.Equal(want.LastSlot) && after.RetryAfter.Equal(want.RetryAfter) && after.TargetNext.Equal(want.TargetNext) &&
		after.FreshUntil.Equal(want.FreshUntil) && after.ManualAt.Equal(want.ManualAt),
		"after run %s the state is %+v, not %+v", runName(run.ID), *after, want)
	hints := w.hintsAfter(id, c)
	if used := w.mirror.hints[id]["one-shot"]; used != nil && !used.RunAt.After(run.ScheduledFor) {
		w.ensure(hints["one-shot"] == nil, "run %s did not consume its one-shot hint", runName(run.ID)) // I13
		w.reach("one-shot consumed")
	} else {
		w.ensure(hints["one-shot"] == used, "run %s consumed a one-shot hint that is still to come", runName(run.ID))
	}
	w.ensure(hints["interval"] == w.mirror.hints[id]["interval"], "run %s ended an interval hint", runName(run.ID))

	now := w.now().Add(999 * time.Microsecond).Truncate(time.Millisecond)
	in := inputOf(id, spec, &want, hints, now, governor.CauseFinish)
	if asked := run.Outcome.RetryAfter; run.Outcome.StatusCode != 0 && asked.After(want.RetryAfter) {
		in.RetryAsked = asked // It was cut.
	}
	w.judgeOverrun(in, before, after, c)
	w.judgeQueue(in, before, after, c)
	next := decide(in, after)
	governed := next.At
	if !after.tries().first() && oneOff != nil && (oneOff.tries().first() || oneOff.NotBefore.Before(next.At)) {
		next.At = oneOff.NotBefore // It is the next due time, also where the clock was set back since.
	}
	if after.Source != "manual" && after.InfraAttempt > run.InfraAttempt {
		w.judgeRepeat(run, spec, before, after, next)
		return
	}
	if wasLost(run) && run.InfraAttempt >= lossBudget {
		w.reach("budget of losses used up")
	}
	w.ensure(run.Source == "manual" || !mustRepeat(run, spec, &want, now, next), "run %s was lost and is not tried again", runName(run.ID))
	if after.Attempt > 1 && after.Source != "manual" {
		w.judgeRetry(run, spec, before, after, next)
		return
	}
	w.ensure(after.Source == "manual" || after.InfraAttempt == 0, "infrastructure attempt %d follows run %s, which was not lost", after.InfraAttempt, runName(run.ID))
	w.ensure(run.Source == "manual" || !mustRetry(run, spec, &want, now, next), "run %s was not tried again", runName(run.ID))
	w.ensure(after.FailureCount == want.FailureCount, "after run %s %d failures count, not %d", runName(run.ID), after.FailureCount, want.FailureCount)
	if w.judgeOneOffPlan(oneOff, after, governed) {
		return
	}
	w.ensure(next.At.Equal(after.PlannedAt) && next.Slot.Equal(after.Slot) && string(next.Source) == after.Source,
		"after run %s the governor says %s by %s, the row %s by %s", runName(run.ID), next.At, next.Source, after.PlannedAt, after.Source)
	w.ensure(string(past.NextSteps) == "null" && len(next.Steps) == 1 || sameSteps(next.Steps, past.NextSteps), "the replay after run %s took other steps: %v, not %s", runName(run.ID), next.Steps, past.NextSteps)
	w.sane(in, after)
	w.standsForLast(in, after, c)
}

// cutWait returns the Retry-After instant, cut to an hour, 32 intervals or the maximum after the
// end of the run. The waits of the simulated targets are short, so a cut happens only if the
// database's clock is set forward between start and answer.
func cutWait(spec endpoints.Spec, run runs.Run) time.Time {
	if run.Outcome.RetryAfter.Sub(run.FinishedAt) <= time.Hour+time.Second { // An hour may look up to a second longer.
		return run.Outcome.RetryAfter
	}
	longest := max(time.Hour, spec.MaxInterval, 32*spec.BaselineInterval)
	latest := run.FinishedAt.Add(longest + time.Millisecond - time.Nanosecond).Truncate(time.Millisecond)
	if run.Outcome.RetryAfter.After(latest) {
		return latest
	}
	return run.Outcome.RetryAfter
}

// anchorAfter returns the grid point that the schedule counts from: the due time, or the actual
// start if it was late by more than 1 s. While due times are queued, no start moves the grid.
func anchorAfter(spec endpoints.Spec, run runs.Run, before *schedule) time.Time {
	if hasQueue(spec, before) {
		if run.Source == "manual" {
			return before.Anchor
		}
		return run.ScheduledFor
	}
	byPlan := !triesOf(run).first() || run.Outcome.Status == runs.Skipped || spec.BaselineCron != "" && spec.CatchUp == governor.CatchUpAll
	if byPlan || run.StartedAt.Sub(before.PlannedAt) <= time.Second {
		return run.ScheduledFor
	}
	return run.StartedAt.Truncate(time.Millisecond)
}

// judgeRetry judges another attempt of one due time.
func (w *world) judgeRetry(run runs.Run, spec endpoints.Spec, before, after *schedule, next governor.Decision) {
	w.t.Helper()
	w.reach("retry")
	w.ensure(run.Source != "manual", "the next attempt of the one-off run %s is planned as one of a due time", runName(run.ID))
	w.ensure(after.tries() == (tries{run.Attempt + 1, run.InfraAttempt}) && after.Slot.Equal(run.ScheduledFor), "run %s is tried again as another", runName(run.ID))
	w.ensure(after.Source == run.Source, "run %s was set by %s, its next attempt by %s", runName(run.ID), run.Source, after.Source)
	w.ensure(run.Outcome.Retryable() && run.Attempt < spec.Retry.MaxAttempts, "run %s is tried again against the policy", runName(run.ID))
	w.ensure(!run.Outcome.MaybeSent || spec.IdempotentMethod() || spec.Idempotent, "run %s is sent again and may have arrived", runName(run.ID))
	w.ensure(!before.PausedUntil.After(w.now()), "run %s is tried again while paused", runName(run.ID))
	w.ensure(after.PlannedAt.Before(next.At), "run %s is tried again at %s, past the next due time %s", runName(run.ID), after.PlannedAt, next.At)
	bound := notBefore(spec, after, w.now().Add(spec.Retry.MaxBackoff+time.Millisecond))
	w.ensure(!after.PlannedAt.Before(notBefore(spec, after, w.now())), "run %s is tried again at %s, too soon", runName(run.ID), after.PlannedAt)
	w.ensure(!after.PlannedAt.After(bound), "run %s is tried again at %s", runName(run.ID), after.PlannedAt)
	w.ensure(after.FailureCount == before.FailureCount, "an attempt that is tried again counted as a failure")
}

// mustRetry reports whether the policy requires another attempt for any jitter.
func mustRetry(run runs.Run, spec endpoints.Spec, s *schedule, now time.Time, next governor.Decision) bool {
	if !run.Outcome.Retryable() || run.Attempt >= spec.Retry.MaxAttempts || s.PausedUntil.After(now) || !s.ManualAt.IsZero() {
		return false
	}
	if run.Outcome.MaybeSent && !spec.IdempotentMethod() && !spec.Idempotent {
		return false
	}
	return notBefore(spec, s, now.Add(spec.Retry.MaxBackoff)).Before(next.At)
}

// notBefore moves an instant to the earliest next attempt: the wishes of the target, and the
// minimum after the last start.
func notBefore(spec endpoints.Spec, s *schedule, at time.Time) time.Time {
	at = later(later(at, s.RetryAfter), later(s.TargetNext, s.FreshUntil))
	if spec.MinInterval > 0 {
		at = later(at, s.LastCall.Add(spec.MinInterval))
	}
	return at
}
