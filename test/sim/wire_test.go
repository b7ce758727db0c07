package sim

import (
	"math"
	"time"

	"rubato/internal/endpoints"
	"rubato/internal/runs"
)

// request is a request as the target received it. Instants are readings of the monotonic clock.
type request struct {
	run      runs.ID
	endpoint endpoints.ID
	token    int64
	by       *worker
	opened   time.Duration
	closed   time.Duration // forever: it is still open
	timeout  time.Duration
	jumps    int // of the database's clock, at its start
	seen     int // those that the worker had noticed by then
}

const forever = time.Duration(math.MaxInt64)

// wire is the log of all requests at a target.
type wire struct {
	requests map[runs.ID]*request
	last     map[endpoints.ID]*request
	open     map[endpoints.ID][]*request
}

func newWire() wire {
	return wire{requests: map[runs.ID]*request{}, last: map[endpoints.ID]*request{}, open: map[endpoints.ID][]*request{}}
}

// arrive logs a request and checks the invariants of the log.
func (w *world) arrive(r *request) {
	w.t.Helper()
	w.ensure(w.wire.requests[r.run] == nil, "run %s was sent twice", runName(r.run)) // I5
	live := w.mirror.live[r.endpoint]
	held := live != nil && runs.ID(live.RunID) == r.run && live.Token == r.token
	w.ensure(held || r.jumps != w.jumps, "run %s was sent and is not live", runName(r.run))
	oneOff := held && live.Source == "manual" && w.mirror.oneOffs[slotKey{r.endpoint, live.Slot.UnixMilli()}] != nil
	if s := w.mirror.schedules[r.endpoint]; s != nil && s.PausedUntil.After(w.now()) && !oneOff && r.seen == w.jumps { // I15
		since := r.opened - w.model[r.endpoint].paused
		w.ensure(since <= sendLimit, "run %s was sent %s after a pause", runName(r.run), since)
	}
	if last := w.wire.last[r.endpoint]; last != nil {
		w.ensure(r.token > last.token, "run %s was sent with fence %d after %d", runName(r.run), r.token, last.token) // I4
	}
	for _, other := range w.wire.open[r.endpoint] { // I6
		if other.closed <= r.opened {
			continue
		}
		w.ensure(other.by.frozen || other.jumps != w.jumps, "run %s was sent while run %s is open", runName(r.run), runName(other.run))
		w.reach("overlap of a frozen worker")
	}
	w.wire.requests[r.run], w.wire.last[r.endpoint] = r, r
	w.wire.open[r.endpoint] = append(w.wire.open[r.endpoint], r)
	w.reach("request")
}

// close ends a request.
func (l *wire) close(r *request, at time.Duration) {
	if r != nil && r.closed == forever {
		r.closed = at
	}
}
