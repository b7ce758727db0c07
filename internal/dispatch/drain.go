package dispatch

import (
	"context"
	"time"
)

// drainPeriod is the period of the presence heartbeat between an order to drain and its end, so
// that the operator sees the end soon.
const drainPeriod = 250 * time.Millisecond

// OrdersChanged triggers a heartbeat, which reads the operator's orders, if worker is this worker
// or zero, which stands for any worker. It never blocks.
func (w *Worker) OrdersChanged(worker [16]byte) {
	if worker != w.id && worker != [16]byte{} {
		return
	}
	select {
	case w.orders <- struct{}{}:
	default:
	}
}

// leaving reports whether the worker claims nothing more, because of a shutdown or of an order.
func (w *Worker) leaving() bool { return w.draining.Load() || w.drainOrdered.Load() }

// follow applies the operator's order to drain, or its end. It reports whether the state of the
// worker has changed by it. Under the order the worker releases its claims that have not started,
// starts nothing, and finishes its runs. Every call releases again, because a failed start puts its
// claims back.
func (w *Worker) follow(ctx context.Context, drain bool) (changed bool) {
	changed = w.drainOrdered.Swap(drain) != drain
	switch {
	case drain && changed:
		w.logger.Info("drain ordered: no new claims until it is withdrawn", "busy", w.queue.Busy())
	case changed:
		w.logger.Info("drain withdrawn: claiming again")
		w.claimer.Wake()
		w.queue.Poke()
	}
	if drain {
		w.release(ctx)
	}
	return changed
}

// state returns the state of the worker for its heartbeat.
func (w *Worker) state() State {
	switch {
	case w.draining.Load():
		return Draining
	case !w.drainOrdered.Load():
		return Active
	case w.claimer.Idle() && w.queue.Busy() == 0 && w.queue.Len() == 0 && w.backlog.empty():
		return Drained
	default:
		return Draining
	}
}

// untilPresence returns the delay until the next heartbeat of a worker in a state.
func (w *Worker) untilPresence(state State) time.Duration {
	if state == Draining && !w.draining.Load() {
		return drainPeriod
	}
	return untilPresence()
}
