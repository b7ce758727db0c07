package sim

import (
	"encoding/json"
	"maps"
	"time"

	"rubato/internal/endpoints"
	"rubato/internal/governor"
)

// hintsAfter returns the hints of an endpoint after a call.
func (w *world) hintsAfter(id endpoints.ID, c *changes) map[string]*hint {
	probe := newMirror()
	probe.hints[id] = map[string]*hint{}
	maps.Copy(probe.hints[id], w.mirror.hints[id])
	for _, h := range c.hints {
		probe.applyHint(h)
	}
	return probe.hints[id]
}

// inputOf builds the input of a decision from rows.
func inputOf(id endpoints.ID, spec endpoints.Spec, s *schedule, hints map[string]*hint, now time.Time, cause governor.Cause) governor.Input {
	in := governor.Input{
		EndpointID: id, Now: now, Cause: cause, Anchor: s.Anchor, StartAt: spec.StartAt, CatchUp: spec.CatchUp,
		Baseline: governor.Baseline{Interval: spec.BaselineInterval}, Failures: s.FailureCount,
		Min: spec.MinInterval, Max: spec.MaxInterval, LastSlot: s.LastSlot, RetryAfter: s.RetryAfter, PausedUntil: s.PausedUntil,
		TargetNext: s.TargetNext, FreshUntil: s.FreshUntil, Jitter: spec.Jitter,
	}
	if spec.BaselineCron != "" && spec.CatchUp == governor.CatchUpAll && !s.Anchor.IsZero() {
		in.Accounted = s.Accounted
	}
	if spec.Overlap == governor.OverlapQueue {
		in.QueuedUntil = s.LastFinished
		if cause == governor.CauseFinish {
			in.QueuedUntil = now
		}
		if !s.Anchor.IsZero() {
			in.Accounted = s.Accounted
		}
	}
	if spec.MinInterval > 0 && s.LastCall.After(s.Anchor) {
		in.LastStart = s.LastCall
	}
	if cron, err := spec.ParseCron(id); err == nil && cron != nil {
		in.Baseline.Cron = cron
	}
	if h := hints["interval"]; h != nil {
		in.IntervalHint = &governor.IntervalHint{Interval: time.Duration(h.IntervalMs) * time.Millisecond, ExpiresAt: h.ExpiresAt, Reason: h.Reason}
	}
	if h := hints["one-shot"]; h != nil {
		in.OneShot = &governor.OneShotHint{At: h.RunAt, ExpiresAt: h.ExpiresAt, Reason: h.Reason}
	}
	return in
}

// recordedInput reads the input from the ledger. The cron follows from the version, and the reasons
// of hints from their rows.
func recordedInput(id endpoints.ID, spec endpoints.Spec, raw []byte, hints map[string]*hint) (governor.Input, error) {
	var kept struct {
		Now          time.Time      `json:"now"`
		Cause        governor.Cause `json:"cause"`
		Anchor       time.Time      `json:"anchor"`
		FailureCount int            `json:"failureCount"`
		LastSlot     time.Time      `json:"lastSlot"`
		LastStart    time.Time      `json:"lastStart"`
		PausedUntil  time.Time      `json:"pausedUntil"`
		RetryAfter   time.Time      `json:"retryAfter"`
		TargetNext   time.Time      `json:"targetNext"`
		FreshUntil   time.Time      `json:"freshUntil"`
		OpenUntil    time.Time      `json:"openUntil"`
		Accounted    time.Time      `json:"accountedUntil"`
		OnRecord     time.Time      `json:"recordedUntil"`
		QueuedUntil  time.Time      `json:"queuedUntil"`
		Hints        struct {
			Interval *struct {
				IntervalMs int64     `json:"intervalMs"`
				ExpiresAt  time.Time `json:"expiresAt"`
			} `json:"interval"`
			OneShot *struct {
				At        time.Time `json:"at"`
				ExpiresAt time.Time `json:"expiresAt"`
			} `json:"oneShot"`
		} `json:"hints"`
	}
	if err := json.Unmarshal(raw, &kept); err != nil {
		return governor.Input{}, err
	}
	s := &schedule{
		Anchor: kept.Anchor, FailureCount: kept.FailureCount, LastSlot: kept.LastSlot, PausedUntil: kept.PausedUntil, RetryAfter: kept.RetryAfter,
		LastCall: kept.LastStart, TargetNext: kept.TargetNext, FreshUntil: kept.FreshUntil,
	}
	replayed := map[string]*hint{}
	if h := kept.Hints.Interval; h != nil {
		replayed["interval"] = &hint{IntervalMs: h.IntervalMs, ExpiresAt: h.ExpiresAt, Reason: reasonOf(hints["interval"])}
	}
	if h := kept.Hints.OneShot; h != nil {
		replayed["one-shot"] = &hint{RunAt: h.At, ExpiresAt: h.ExpiresAt, Reason: reasonOf(hints["one-shot"])}
	}
	in := inputOf(id, spec, s, replayed, kept.Now, kept.Cause)
	in.Accounted, in.OnRecord, in.QueuedUntil, in.OpenUntil = kept.Accounted, kept.OnRecord, kept.QueuedUntil, kept.OpenUntil
	return in, nil
}

func reasonOf(h *hint) string {
	if h == nil {
		return ""
	}
	return h.Reason
}

// sameSteps compares a trace with a stored one.
func sameSteps(steps []governor.Step, stored []byte) bool {
	var kept []governor.Step
	if stored == nil || json.Unmarshal(stored, &kept) != nil || len(kept) != len(steps) {
		return false
	}
	for i := range steps {
		if kept[i].Rule != steps[i].Rule || !kept[i].At.Equal(steps[i].At) || kept[i].Why != steps[i].Why {
			return false
		}
	}
	return true
}

// sane checks a plan against the guarantees of the rules, without asking the governor. Jitter moves
// a candidate by less than its bound.
func (w *world) sane(in governor.Input, s *schedule) {
	w.t.Helper()
	id, at := endpoints.ID(s.EndpointID), s.PlannedAt
	paused := in.PausedUntil.After(in.Now)
	w.ensure(!at.Before(in.Now), "%s is planned before now", short(id))
	w.ensure(!paused || !at.Before(in.PausedUntil), "%s is planned inside its pause", short(id)) // I15
	if !in.Anchor.IsZero() {                                                                     // I12
		from := later(in.Anchor, in.LastStart)
		w.ensure(in.Min <= 0 || !at.Before(from.Add(in.Min)), "%s is planned %s after its anchor, the minimum is %s", short(id), at.Sub(from), in.Min)
		latest := later(in.Now, in.Anchor.Add(in.Max))
		if in.Min > 0 && !in.LastStart.IsZero() {
			latest = later(latest, in.LastStart.Add(in.Min))
		}
		w.ensure(in.Max <= 0 || paused || !at.After(later(latest, in.OpenUntil)), "%s is planned at %s, the maximum allows %s", short(id), at, latest)
	}
	if s.Source == string(governor.SourceAIInterval) { // I13
		w.ensure(in.IntervalHint != nil && in.IntervalHint.ExpiresAt.After(in.Now), "an expired interval hint planned %s", short(id))
		w.reach("plan by an interval hint")
	}
	if s.Source == string(governor.SourceAIOneShot) {
		w.ensure(in.OneShot != nil && in.OneShot.ExpiresAt.After(in.Now) && in.OneShot.At.After(in.LastSlot), "an expired or used one-shot hint planned %s", short(id))
		w.reach("plan by a one-shot hint")
	}
	if s.Source == string(governor.SourceTarget) {
		w.reach("plan by a header of the target")
	}
	if in.Baseline.Cron == nil && !paused {
		want := expected(in)
		w.ensure(!at.Before(want) && !at.After(want.Add(max(0, in.Jitter-1))), "%s is planned at %s by %s, the rules say %s (%+v)", short(id), at, s.Source, want, in)
	}
}

// expected computes the due time of an unpaused interval endpoint by the rules, without jitter.
func expected(in governor.Input) time.Time {
	every := in.Baseline.Interval
	for range min(in.Failures, 5) {
		every *= 2
	}
	if h := in.IntervalHint; h != nil && h.ExpiresAt.After(in.Now) {
		every = h.Interval
	}
	at := in.Anchor.Add(every)
	if in.Anchor.IsZero() {
		at = later(in.Now, in.StartAt)
	}
	wins := in.OneShot != nil && in.OneShot.ExpiresAt.After(in.Now) && in.OneShot.At.After(in.LastSlot) && in.OneShot.At.Before(at)
	if wins {
		at = in.OneShot.At
	}
	lined := !in.Anchor.IsZero() && queuedFirst(in, at, wins)
	if lined {
		at = in.Now
	}
	switch asked := in.TargetNext.After(in.LastSlot); {
	case asked && in.TargetNext.Before(at):
		if !lined {
			at, wins = in.TargetNext, true
		}
	case asked:
		at = in.TargetNext
	default:
		at = later(at, in.FreshUntil)
	}
	at = later(at, in.RetryAfter)
	if at.Before(in.Now) {
		at = in.Now
		if !wins && in.Cause == governor.CauseFinish {
			at = in.Now.Add(every)
		}
	}
	if in.Anchor.IsZero() {
		return later(at, in.OpenUntil)
	}
	if in.Min > 0 {
		at = later(at, in.Anchor.Add(in.Min))
	}
	if in.Max > 0 {
		at = earlier(at, in.Anchor.Add(in.Max))
	}
	at = later(at, in.Now)
	if in.Min > 0 && !in.LastStart.IsZero() {
		at = later(at, in.LastStart.Add(in.Min))
	}
	return later(at, in.OpenUntil)
}

// decide asks the governor for the decision that the row should hold. An immediate run for missed
// occurrences of a cron serves the last one. If the row says that it serves the instant of the
// decision, that occurrence is recorded already, or another due time passed after it.
func decide(in governor.Input, s *schedule) governor.Decision {
	next := governor.Decide(in)
	once := in.Baseline.Cron != nil && in.CatchUp == governor.CatchUpOnce
	if once && next.Slot.Before(in.Now) && !s.Slot.Before(in.Now) {
		in.OnRecord = in.Now
		return governor.Decide(in)
	}
	return next
}

// standsForLast checks that an immediate run serves the last missed occurrence of its cron, if only
// that cron decides and the occurrence has no record.
func (w *world) standsForLast(in governor.Input, s *schedule, c *changes) {
	w.t.Helper()
	id := endpoints.ID(s.EndpointID)
	next := governor.Decide(in)
	if in.Baseline.Cron == nil || in.CatchUp != governor.CatchUpOnce || !next.Slot.Before(in.Now) || w.jumps > 0 {
		return
	}
	w.ensure(!s.Slot.Before(in.Now) || !w.covered(id, s.Slot, c), "%s catches up on %s, which is on record", short(id), s.Slot)
	w.reach("catch up on the last occurrence")
}
