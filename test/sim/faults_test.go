package sim

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"rubato/internal/dispatch"
	"rubato/internal/runs"
)

// fault injects a fault into a worker or the sweeper.
func (w *world) fault(t *rapid.T) {
	kind := rapid.SampledFrom([]string{"kill", "freeze", "freeze", "cut", "cut", "drain", "blind"}).Draw(t, "fault")
	if kind == "blind" { // The sweeper loses the database for a moment, so that silence is no signal any more.
		w.sweeper.watching = w.elapsed
		return
	}
	p := pick(t, "victim", w.workers, (*worker).reachable)
	w.note("%s of %s", kind, short(p.id))
	w.reach(kind)
	switch kind {
	case "kill":
		w.kill(p)
	case "freeze":
		p.frozen = true
	case "cut":
		p.cut = true
	case "drain":
		w.drainWorker(p)
	}
}

// kill ends a process with its memory and its connections. Another one replaces it.
func (w *world) kill(p *worker) {
	for _, e := range p.running {
		w.wire.close(e.request, w.elapsed)
	}
	w.workers[slices.Index(w.workers, p)] = w.newWorker()
}

// drainWorker shuts a worker down gracefully: it gives back unstarted claims, gives up live runs
// and records that, and signs off.
func (w *world) drainWorker(p *worker) {
	if len(p.queue) > 0 {
		w.refused(p, p.starts(p.queue))
	}
	for _, e := range slices.Clone(p.running) {
		w.end(p, e, runs.Outcome{Status: runs.Lost, Reason: runs.Shutdown, MaybeSent: e.request != nil})
	}
	if len(p.results) > 0 {
		w.do(w.finishCall(p, batchOf(p.results), dispatch.Keep{}))
	}
	w.do(w.beatCall(p, "inactive"))
	w.workers[slices.Index(w.workers, p)] = w.newWorker()
}

// rollOut replaces the worker of a run, and the one that takes the run over, until the budget of
// losses is spent.
func (w *world) rollOut(t *rapid.T) {
	if !chance(t, 70, "roll-out") {
		t.Skip("no roll-out")
	}
	p := pick(t, "replaced", w.workers, func(p *worker) bool { return p.reachable() && len(p.running) > 0 })
	for infra := range lossBudget + 1 {
		at := slices.Index(w.workers, p)
		w.note("%s is replaced", short(p.id))
		w.drainWorker(p)
		_, wait := lossWait(runs.Run{InfraAttempt: infra})
		w.pass(wait + 10*time.Millisecond)
		p = w.workers[at]
		w.do(w.beatCall(p, "active"))
		w.do(w.claimCall(p, 4, time.Time{}))
		if list := w.due(p); len(list) > 0 {
			w.do(w.startCall(p, list))
		}
		if len(p.running) == 0 {
			return
		}
		for _, e := range slices.Clone(p.running) {
			w.transmit(p, e)
		}
	}
}

func (w *world) heal(t *rapid.T) {
	w.healOne(pick(t, "healed", w.workers, func(p *worker) bool { return !p.reachable() }))
}

func (w *world) healOne(p *worker) {
	w.note("%s is well again", short(p.id))
	p.frozen, p.cut = false, false
	w.watch(p)
}

// jump sets the database's clock, rarely by much.
func (w *world) jump(t *rapid.T) {
	if !chance(t, 15, "jump") {
		t.Skip("no jump")
	}
	by := rapid.SampledFrom([]time.Duration{-3 * time.Second, 3 * time.Second, -70 * time.Second, 70 * time.Second, -time.Hour, time.Hour}).Draw(t, "by")
	w.offset += by + 7*time.Millisecond
	w.ahead = max(w.ahead, w.offset)
	w.jumps++
	w.sweeper.watching, w.sweeper.stepped = w.elapsed, w.elapsed
	w.note("the database's clock is set by %s", by)
	w.reach("jump")
}
