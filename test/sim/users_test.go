package sim

import (
	"context"
	"fmt"
	"time"

	"pgregory.net/rapid"

	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/governor"
	keystore "rubato/internal/store/keys"
)

// user is the author of changes of endpoints.
var user = endpoints.Actor{TenantID: keystore.DefaultTenant, Name: "user"}

func (w *world) register(t *rapid.T) {
	if len(w.model) >= 4 {
		t.Skip("enough endpoints")
	}
	w.do(w.registerCall(drawSpec(t)))
}

func (w *world) registerCall(spec endpoints.Spec) *call {
	var e *endpoints.Endpoint
	return &call{
		name: "register",
		run: func(ctx context.Context, s *stores) (err error) {
			e, _, err = s.service.Register(ctx, user, spec)
			return err
		},
		judge: func(c *changes) {
			w.model[e.ID] = &intent{specs: map[int64]endpoints.Spec{e.Version: e.Spec}}
			w.judgeChange(e.ID, "register", c)
		},
	}
}

func drawSpec(t *rapid.T) endpoints.Spec {
	s := endpoints.Defaults()
	s.Name, s.URL = "probe", rapid.SampledFrom([]string{"http://target.example/", "http://target.example/", "http://other.example/"}).Draw(t, "url")
	s.BaselineInterval = rapid.SampledFrom([]time.Duration{5 * time.Second, 30 * time.Second, time.Minute, 10 * time.Minute}).Draw(t, "interval")
	if chance(t, 15, "cron") {
		s.BaselineInterval, s.BaselineCron = 0, rapid.SampledFrom([]string{"* * * * *", "*/5 * * * *"}).Draw(t, "expression")
		s.CatchUp = rapid.SampledFrom([]governor.CatchUp{governor.CatchUpOnce, governor.CatchUpSkip, governor.CatchUpAll}).Draw(t, "catch up")
	}
	if chance(t, 30, "queue") {
		s.Overlap = governor.OverlapQueue
	}
	s.MinInterval = rapid.SampledFrom([]time.Duration{0, 0, 4 * time.Second, 20 * time.Second}).Draw(t, "min")
	s.MaxInterval = rapid.SampledFrom([]time.Duration{0, 0, 40 * time.Second, 2 * time.Minute}).Draw(t, "max")
	s.Jitter = rapid.SampledFrom([]time.Duration{0, 0, 0, 3 * time.Second}).Draw(t, "jitter")
	s.MaxExecutionTime = rapid.SampledFrom([]time.Duration{5 * time.Second, 30 * time.Second, 10 * time.Minute, 10 * time.Minute}).Draw(t, "limit")
	s.Timeout = s.MaxExecutionTime - time.Second
	s.Method = rapid.SampledFrom([]string{"GET", "POST"}).Draw(t, "method")
	s.Idempotent = rapid.Bool().Draw(t, "idempotent")
	s.Retry = endpoints.Retry{MaxAttempts: rapid.IntRange(1, 3).Draw(t, "attempts"), Backoff: time.Second, MaxBackoff: 8 * time.Second}
	return s
}

// change lets a user change an endpoint.
func (w *world) change(t *rapid.T) {
	w.do(w.changeCall(t))
}

func (w *world) changeCall(t *rapid.T) *call {
	ids := make([]endpoints.ID, 0, len(w.model))
	for n := range w.ids {
		id := w.idAt(n + 1)
		if w.model[id] != nil {
			ids = append(ids, id)
		}
	}
	id := pick(t, "endpoint", ids, func(endpoints.ID) bool { return true })
	cause := rapid.SampledFrom([]string{
		"pause", "pause", "resume", "resume", "run_now", "run_now", "interval", "one-shot", "one-shot", "clear", "reset_failures", "edit", "archive",
	}).Draw(t, "change")
	if cause == "archive" && !chance(t, 10, "archive") {
		cause = "resume"
	}
	return w.changes(t, id, cause)
}

func (w *world) idAt(n uint32) endpoints.ID {
	ids := w.ids
	w.ids = n - 1
	id := w.nextID()
	w.ids = ids
	return id
}

// changes returns the call for a change of an endpoint by a user.
func (w *world) changes(t *rapid.T, id endpoints.ID, cause string) *call {
	run, ledger := w.operation(t, id, cause)
	c := &call{name: fmt.Sprintf("%s of %s", cause, short(id)), legal: []errs.Code{errs.Conflict, errs.Invalid}}
	c.run = run
	c.judge = func(did *changes) {
		if ledger == "archive" && w.mirror.schedules[id] == nil { // A repeated archiving is no error.
			w.nothing("archiving again", did)
			return
		}
		if cause == "pause" {
			w.model[id].paused = w.elapsed
		}
		w.judgeChange(id, ledger, did)
		w.judgeWish(id, cause, did)
		w.reach(cause)
	}
	return c
}

// operation draws the details of a change, and returns it with its cause in the ledger.
func (w *world) operation(t *rapid.T, id endpoints.ID, cause string) (func(context.Context, *stores) error, string) {
	switch cause {
	case "pause":
		var until time.Time
		if rapid.Bool().Draw(t, "for a while") {
			until = w.now().Add(w.draw(t, "pause", 1, 120))
		}
		return func(c context.Context, s *stores) error {
			_, err := s.service.Pause(c, user, id, endpoints.PauseRequest{Until: until})
			return err
		}, "pause"
	case "resume":
		return func(c context.Context, s *stores) error { _, err := s.service.Resume(c, user, id); return err }, "resume"
	case "run_now":
		r := endpoints.OneOffRequest{Priority: rapid.SampledFrom([]endpoints.PriorityName{"", "low", "high", "critical"}).Draw(t, "priority")}
		return func(c context.Context, s *stores) error { _, err := s.service.RunNow(c, user, id, r); return err }, "run_now"
	case "interval":
		r := endpoints.HintRequest{Interval: w.draw(t, "interval", 1, 90), TTL: new(w.draw(t, "life", 1, 200)), Reason: "busy"}
		return func(c context.Context, s *stores) error {
			_, _, err := s.service.SetIntervalHint(c, user, id, r)
			return err
		}, "hint"
	case "one-shot":
		r := endpoints.HintRequest{In: new(w.draw(t, "in", 0, 40)), TTL: new(w.draw(t, "life", 1, 200)), Reason: "look"}
		return func(c context.Context, s *stores) error {
			_, _, err := s.service.SetOneShotHint(c, user, id, r)
			return err
		}, "hint"
	case "clear":
		return func(c context.Context, s *stores) error { _, _, err := s.service.ClearHints(c, user, id); return err }, "hint"
	case "reset_failures":
		return func(c context.Context, s *stores) error { _, err := s.service.ResetFailures(c, user, id); return err }, "reset_failures"
	case "archive":
		return func(c context.Context, s *stores) error { return s.service.Archive(c, user, id, 0) }, "archive"
	}
	fresh := drawSpec(t)
	return func(c context.Context, s *stores) error {
		e, _, err := s.service.Edit(c, user, id, 0, func(endpoints.Spec) (endpoints.Spec, error) { return fresh, nil })
		if err == nil {
			w.model[id].specs[e.Version] = e.Spec
		}
		return err
	}, "edit"
}

func (w *world) draw(t *rapid.T, name string, from, to int) time.Duration {
	return time.Duration(rapid.IntRange(from, to).Draw(t, name)) * time.Second
}

// judgeWish checks that the requested change is stored under any concurrency.
func (w *world) judgeWish(id endpoints.ID, cause string, c *changes) {
	w.t.Helper()
	if len(c.schedules) != 1 || c.schedules[0].after == nil {
		return
	}
	s, hints := c.schedules[0].after, w.hintsAfter(id, c)
	switch cause {
	case "pause":
		w.ensure(s.PausedUntil.After(w.now()) && s.ManualAt.IsZero(), "a pause of %s left %+v", short(id), *s)
	case "resume":
		w.ensure(s.PausedUntil.IsZero(), "%s is paused after it was resumed", short(id))
	case "run_now":
		w.ensure(!s.ManualAt.IsZero(), "the request for a run of %s now is not written", short(id))
	case "interval", "one-shot":
		w.ensure(hints[cause] != nil, "the hint for %s is not written", short(id))
	case "clear":
		w.ensure(len(hints) == 0, "%s has hints after they were cleared", short(id))
	case "reset_failures":
		w.ensure(s.FailureCount == 0, "%s counts failures after they were reset", short(id))
	case "edit":
		before := c.schedules[0].before
		wait, next, fresh := before.RetryAfter, before.TargetNext, before.FreshUntil
		edited := s.Version != before.Version // An edit to the same values leaves all as it is.
		if w.specOf(id, before.Version).URL != w.specOf(id, s.Version).URL {
			wait, next, fresh = time.Time{}, time.Time{}, time.Time{}
		}
		if edited && !w.specOf(id, s.Version).FollowNext {
			next = time.Time{}
		}
		if edited && !w.specOf(id, s.Version).FollowMaxAge {
			fresh = time.Time{}
		}
		w.ensure(s.TargetNext.Equal(next) && s.FreshUntil.Equal(fresh), "after an edit %s keeps other wishes of its target: %+v", short(id), *s)
		w.ensure(s.RetryAfter.Equal(wait), "after an edit %s waits until %s as its target asked, not until %s", short(id), s.RetryAfter, wait)
	}
}

// explain checks that the last decision in the ledger is the one in force.
func (w *world) explain(t *rapid.T) {
	if w.jumps > 0 { // The ledger is ordered by the database's time.
		t.Skip("the ledger is out of order")
	}
	ids := make([]endpoints.ID, 0, len(w.model))
	for n := range w.ids {
		if id := w.idAt(n + 1); w.mirror.schedules[id] != nil {
			ids = append(ids, id)
		}
	}
	id := pick(t, "endpoint", ids, func(endpoints.ID) bool { return true })
	w.do(&call{
		name: "explanation of " + short(id),
		run: func(c context.Context, s *stores) error {
			e, err := s.service.Explain(c, user, id)
			if planned := w.mirror.schedules[id].PlannedAt; err == nil && !e.Due.At.Equal(planned) {
				return fmt.Errorf("the explanation says %s by %s, the plan is %s", e.Due.At, e.Cause, planned)
			}
			return err
		},
		judge: func(c *changes) { w.nothing("an explanation", c) },
	})
}
