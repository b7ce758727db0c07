package sim

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/governor"
	"rubato/internal/runs"
)

// actions holds everything that can happen, by name. An action that is impossible at the moment is
// skipped.
func (w *world) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"":              func(*rapid.T) { w.everyHolder() },
		"advance":       w.advance,
		"advance a bit": w.advanceABit,
		"jump":          w.jump,
		"work":          w.work,
		"work on":       w.work,
		"claim":         w.claim,
		"start":         w.start,
		"send":          w.dispatch,
		"answer":        w.reply,
		"finish":        w.finish,
		"release":       w.release,
		"heartbeat":     w.heartbeat,
		"beat":          w.beat,
		"fault":         w.fault,
		"roll out":      w.rollOut,
		"heal":          w.heal,
		"sweep":         w.sweep,
		"take over":     w.takeOver,
		"clamp":         w.clamp,
		"tidy":          w.tidy,
		"change":        w.change,
		"change more":   w.change,
		"register":      w.register,
		"echo":          w.echo,
		"race":          w.race,
		"twin":          w.twin,
		"twin start":    w.twinStart,
		"restart":       w.restart,
		"stale":         w.stale,
		"foreign":       w.foreign,
		"misplaced":     w.misplaced,
		"doubt":         w.doubt,
		"explain":       w.explain,
	}
}

// pick draws an element that satisfies ok, or skips the action.
func pick[T any](t *rapid.T, name string, list []T, ok func(T) bool) T {
	var fit []T
	for _, one := range list {
		if ok(one) {
			fit = append(fit, one)
		}
	}
	if len(fit) == 0 {
		t.Skip("nothing to " + name)
	}
	return fit[rapid.IntRange(0, len(fit)-1).Draw(t, name)]
}

func chance(t *rapid.T, percent int, name string) bool {
	return rapid.IntRange(0, 99).Draw(t, name) >= 100-percent
}

// pass advances the time, and lets every running actor react to it.
func (w *world) pass(d time.Duration) {
	w.elapsed += d
	w.note("%s pass", d)
	for _, p := range w.workers {
		w.watch(p)
	}
}

func (w *world) advanceABit(t *rapid.T) {
	w.pass(time.Duration(rapid.IntRange(1, 1_500_000).Draw(t, "microseconds")) * time.Microsecond)
}

func (w *world) advance(t *rapid.T) {
	d := rapid.SampledFrom([]time.Duration{2 * time.Second, 5 * time.Second, 8 * time.Second, 20 * time.Second, 70 * time.Second, 100 * time.Second}).Draw(t, "about")
	w.pass(d + time.Duration(rapid.IntRange(1, 999_999).Draw(t, "microseconds"))*time.Microsecond)
}

// work lets one healthy worker do all of its due work.
func (w *world) work(t *rapid.T) {
	p := pick(t, "healthy worker", w.workers, (*worker).reachable)
	if chance(t, 60, "beats") {
		w.do(w.beatCall(p, "active"))
	}
	w.do(w.claimCall(p, 4, time.Time{}))
	if list := w.due(p); len(list) > 0 {
		w.do(w.startCall(p, list))
	}
	for _, e := range slices.Clone(p.running) {
		w.transmit(p, e)
	}
	if slices.ContainsFunc(p.running, func(e *execution) bool { return e.ends > 0 }) {
		w.do(w.heartbeatCall(p))
	}
	for _, e := range slices.Clone(p.running) {
		if e.request != nil && chance(t, 50, "answered") {
			w.answered(t, p, e)
		}
	}
	if batch := batchOf(p.results); len(batch) > 0 && chance(t, 80, "finished") {
		w.do(w.finishCall(p, batch, keepOf(t)))
	}
}

func (w *world) claim(t *rapid.T) {
	p := pick(t, "claimer", w.workers, (*worker).reachable)
	c := w.claimCall(p, rapid.IntRange(1, 4).Draw(t, "limit"), w.floor(t))
	w.send(c)
	if chance(t, 10, "answer lost") { // Its claims expire.
		w.reach("claim unknown")
		return
	}
	w.hear(c)
}

// floor draws the low-water mark of a claim.
func (w *world) floor(t *rapid.T) time.Time {
	if chance(t, 50, "from the oldest") {
		return time.Time{}
	}
	return w.now().Add(-rapid.SampledFrom([]time.Duration{0, time.Second, 10 * time.Second, time.Minute}).Draw(t, "floor"))
}

func (w *world) start(t *rapid.T) {
	p := pick(t, "starter", w.workers, func(p *worker) bool {
		return p.awake() && slices.ContainsFunc(p.queue, func(c claims.Claim) bool { return !c.PlannedAt.After(p.now(w)) }) &&
			len(p.running)+len(p.results) < slots
	})
	list := w.due(p)
	if len(list) == 0 {
		t.Skip("nothing is due")
	}
	c := w.startCall(p, list)
	w.remember(c)
	switch {
	case p.cut: // The start is lost, and retried later.
		w.unheard(p, list)
		return
	case chance(t, 10, "stuck"): // The start arrives later as an echo; the worker has given up by then.
		w.do(w.releaseCall(p, list))
		return
	}
	w.send(c)
	if chance(t, 10, "answer lost") {
		w.reach("start unknown")
		w.unheard(p, list)
		return
	}
	w.hear(c)
}

// transmit sends the request of an execution, or drops it after its send deadline.
func (w *world) transmit(p *worker, e *execution) {
	if e.request != nil {
		return
	}
	if w.elapsed-e.asked > sendLimit {
		w.end(p, e, runs.Outcome{Status: runs.Skipped, Reason: runs.StartExpired})
		w.reach("start expired")
		return
	}
	if late := p.now(w).Sub(e.claim.PlannedAt); e.claim.Attempt == 1 && e.claim.InfraAttempt == 0 && e.spec.Misses(governor.Source(e.claim.Source), late) {
		w.end(p, e, runs.Outcome{Status: runs.Skipped, Reason: runs.MisfireSkipped})
		w.reach("missed")
		return
	}
	e.request = &request{
		run: e.started.RunID, endpoint: e.claim.EndpointID, token: e.claim.Token, by: p, opened: w.elapsed,
		closed: forever, timeout: w.elapsed + e.spec.Timeout, jumps: e.jumps, seen: e.seen,
	}
	w.note("%s sends run %s", short(p.id), runName(e.started.RunID))
	w.arrive(e.request)
}

func (w *world) dispatch(t *rapid.T) {
	p, e := w.pickExecution(t, "sender", func(e *execution) bool { return e.request == nil })
	w.transmit(p, e)
}

func (w *world) pickExecution(t *rapid.T, name string, ok func(*execution) bool) (*worker, *execution) {
	p := pick(t, name, w.workers, func(p *worker) bool { return p.awake() && slices.ContainsFunc(p.running, ok) })
	return p, pick(t, "execution", p.running, ok)
}

func (w *world) reply(t *rapid.T) {
	p, e := w.pickExecution(t, "answered", func(e *execution) bool { return e.request != nil })
	w.answered(t, p, e)
}

// answered lets the target answer a request.
func (w *world) answered(t *rapid.T, p *worker, e *execution) {
	o := success()
	switch rapid.SampledFrom([]string{"ok", "ok", "error", "busy", "gone", "broken"}).Draw(t, "answer") {
	case "ok":
		o.TargetNext, o.FreshUntil = wishes(e.started.RunID, p.now(w))
	case "error":
		o.Status, o.StatusCode = runs.Failed, 500
	case "busy":
		o.Status, o.StatusCode = runs.Failed, 429
		o.RetryAfter = p.now(w).Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "retry after")) * time.Second).Truncate(time.Millisecond)
	case "gone":
		o.Status, o.StatusCode = runs.Failed, 404
	case "broken":
		o = runs.Outcome{Status: runs.Failed, Reason: runs.ConnectError}
	}
	w.note("the target answers run %s with %d", runName(e.started.RunID), o.StatusCode)
	w.end(p, e, o)
}

// wishes returns the hints in a successful answer about the next run: one in four answers names it,
// and one in four is fresh for a while. They depend on the run alone, so that they draw nothing.
func wishes(run runs.ID, now time.Time) (next, fresh time.Time) {
	at := now.Add(time.Duration(1+run[14]%90) * time.Second).Truncate(time.Millisecond)
	switch run[15] % 4 {
	case 0:
		return at, time.Time{}
	case 1:
		return time.Time{}, at
	}
	return time.Time{}, time.Time{}
}

func success() runs.Outcome {
	return runs.Outcome{Status: runs.Succeeded, Reason: runs.HTTPStatus, StatusCode: 200, MaybeSent: true}
}

func batchOf(results []result) []runs.Run {
	batch := make([]runs.Run, len(results))
	for i, r := range results {
		batch[i] = r.run
	}
	return batch
}

func keepOf(t *rapid.T) dispatch.Keep {
	if rapid.Bool().Draw(t, "keep") {
		return dispatch.Keep{Within: horizon, Most: rapid.IntRange(1, 3).Draw(t, "keep most")}
	}
	return dispatch.Keep{}
}

func (w *world) finish(t *rapid.T) {
	p := pick(t, "finisher", w.workers, func(p *worker) bool { return p.reachable() && len(p.results) > 0 })
	batch := batchOf(p.results)[:rapid.IntRange(1, len(p.results)).Draw(t, "batch")]
	c := w.finishCall(p, batch, keepOf(t))
	w.remember(c)
	w.send(c)
	if chance(t, 20, "answer lost") { // The finish is retried, and the record is found then.
		w.reach("finish unknown")
		return
	}
	w.hear(c)
}

func (w *world) release(t *rapid.T) {
	p := pick(t, "releaser", w.workers, func(p *worker) bool { return p.reachable() && len(p.queue) > 0 })
	n := rapid.IntRange(1, len(p.queue)).Draw(t, "claims")
	list := slices.Clone(p.queue[:n])
	p.queue = slices.Clone(p.queue[n:])
	c := w.releaseCall(p, list)
	w.remember(c)
	w.do(c)
}

func (w *world) heartbeat(t *rapid.T) {
	p := pick(t, "heartbeater", w.workers, func(p *worker) bool {
		return p.reachable() && slices.ContainsFunc(p.running, func(e *execution) bool { return e.ends > 0 })
	})
	c := w.heartbeatCall(p)
	w.remember(c)
	w.send(c)
	if !chance(t, 10, "answer lost") {
		w.hear(c)
	}
}

func (w *world) beat(t *rapid.T) {
	w.do(w.beatCall(pick(t, "beating", w.workers, (*worker).reachable), "active"))
}

// everyHolder checks an invariant of workers between steps: a live run of a healthy holder is never
// settled.
func (w *world) everyHolder() {
	for _, p := range w.workers {
		for _, e := range p.running {
			if !p.awake() || e.jumps != w.jumps || e.request == nil || p.cut {
				continue
			}
			live := w.mirror.live[e.claim.EndpointID]
			held := live != nil && runs.ID(live.RunID) == e.started.RunID
			w.ensure(held || e.ends > 0 && w.elapsed >= e.ends, "run %s was settled under a holder that is well", runName(e.started.RunID)) // I10
		}
	}
}

// echo repeats a call to the database, like a network that delivers a duplicate late.
func (w *world) echo(t *rapid.T) {
	if len(w.sent) == 0 {
		t.Skip("nothing to say again")
	}
	c := *w.sent[rapid.IntRange(0, len(w.sent)-1).Draw(t, "echo")]
	c.name = "echo of " + c.name
	w.do(&c)
	w.reach("echo")
}
