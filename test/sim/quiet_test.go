package sim

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"rubato/internal/dispatch"
)

// quiet ends some cases with a period without faults. Afterwards no run may be live and no endpoint
// overdue.
func (w *world) quiet(t *rapid.T) {
	if !chance(t, 30, "quiet end") {
		return
	}
	if w.offset < w.ahead { // Locks that were granted under a fast clock hold until then.
		w.offset = w.ahead
		w.jumps++
		w.sweeper.watching, w.sweeper.stepped = w.elapsed, w.elapsed
	}
	for _, p := range slices.Clone(w.workers) {
		w.healOne(p)
		w.kill(p)
	}
	for range 18 {
		w.pass(25 * time.Second)
		w.do(w.takeOverCall())
		w.do(w.clampCall())
		w.do(w.listCall())
		for _, run := range w.sweeper.listed {
			w.do(w.settleCall(run))
		}
		w.sweeper.listed = nil
		w.serve(w.workers[0])
		if w.calm() && w.elapsed-w.sweeper.watching >= settlePeriod {
			w.reach("quiet end")
			return
		}
	}
	w.fail("after %s of quiet a run is still live, or an endpoint overdue", 18*25*time.Second)
}

// serve lets a worker run all due endpoints, with a target that answers at once.
func (w *world) serve(p *worker) {
	w.do(w.beatCall(p, "active"))
	w.do(w.claimCall(p, 10, time.Time{}))
	list := w.due(p)
	if len(list) == 0 {
		return
	}
	w.do(w.startCall(p, list))
	for _, e := range slices.Clone(p.running) {
		w.transmit(p, e)
		if e.request != nil { // Requests that were too late to send are over.
			w.end(p, e, success())
		}
	}
	if len(p.results) > 0 {
		w.do(w.finishCall(p, batchOf(p.results), dispatch.Keep{}))
	}
}

// calm reports whether no run is live and no unclaimed endpoint is overdue.
func (w *world) calm() bool {
	for _, s := range w.mirror.schedules {
		if !s.PlannedAt.After(w.now()) {
			return false
		}
	}
	return len(w.mirror.live) == 0
}
