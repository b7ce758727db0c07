package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"pgregory.net/rapid"

	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/runs"
)

// race overlaps two calls: the second begins when the first has done everything except the commit.
// Locks and skipping decide the order of their commits, and both are judged in that order.
func (w *world) race(t *rapid.T) {
	first := w.contender(t, "first")
	second := w.contender(t, "second")
	if second.name == first.name {
		t.Skip("one actor cannot meet itself")
	}
	w.meet(first, second)
}

// twin overlaps the finish of a run with a delayed duplicate of its start. The duplicate waits for
// the row, and must not take its place.
func (w *world) twin(t *rapid.T) {
	p := pick(t, "finisher", w.workers, func(p *worker) bool { return p.reachable() && len(p.results) > 0 })
	owner := p.results[0].owner
	again := w.startCall(p, []claims.Claim{owner.claim})
	again.name, again.answer = "twin of the start of run "+runName(owner.started.RunID), nil
	w.meet(w.finishCall(p, batchOf(p.results[:1]), keepOf(t)), again)
	w.reach("twin")
}

// twinStart overlaps a start with its duplicate: one makes the run, and the other changes nothing.
func (w *world) twinStart(t *rapid.T) {
	p := pick(t, "starter", w.workers, func(p *worker) bool {
		return p.reachable() && slices.ContainsFunc(p.queue, func(c claims.Claim) bool { return !c.PlannedAt.After(p.now(w)) })
	})
	list := w.due(p)
	if len(list) == 0 {
		t.Skip("nothing is due")
	}
	again := w.startCall(p, list)
	again.name, again.answer = "twin of the "+again.name, nil
	w.meet(w.startCall(p, list), again)
	w.reach("twin of a start")
}

// stale makes a holder's calls with an outdated fencing token: they must change nothing.
func (w *world) stale(t *rapid.T) {
	p := pick(t, "holder", w.workers, func(p *worker) bool { return len(p.running)+len(p.queue) > 0 })
	old := *p
	old.queue, old.running, old.results = slices.Clone(p.queue), nil, nil
	for i := range old.queue {
		old.queue[i].Token--
	}
	for _, e := range p.running {
		probe := *e
		probe.claim.Token--
		probe.ends = forever
		old.running = append(old.running, &probe)
		old.results = append(old.results, result{run: runs.Run{
			ID: e.started.RunID, EndpointID: e.started.EndpointID, TenantID: e.started.TenantID, ScheduledFor: e.claim.Slot,
			Attempt: e.claim.Attempt, InfraAttempt: e.claim.InfraAttempt, Source: e.claim.Source, ClaimToken: e.claim.Token - 1, WorkerID: p.id,
			StartedAt: e.started.StartedAt, FinishedAt: e.started.StartedAt, Outcome: success(),
		}})
	}
	w.refuse("stale", w.releaseCall(&old, old.queue), w.startCall(&old, old.queue), w.heartbeatCall(&old), w.lateCall(&old))
	w.reach("stale")
}

// foreign makes a holder's calls from another worker with the current fencing token: they must
// change nothing.
func (w *world) foreign(t *rapid.T) {
	p := pick(t, "holder", w.workers, func(p *worker) bool { return len(p.running)+len(p.queue) > 0 })
	other := *pick(t, "other worker", w.workers, func(other *worker) bool { return other != p })
	other.queue, other.running, other.targets = slices.Clone(p.queue), nil, p.targets
	for _, e := range p.running {
		probe := *e
		probe.ends = forever
		other.running = append(other.running, &probe)
	}
	w.refuse("foreign", w.releaseCall(&other, other.queue), w.startCall(&other, other.queue), w.heartbeatCall(&other))
	w.reach("foreign")
}

// misplaced starts a claim at the tuple position of another endpoint with the same token by chance.
// The position alone must decide nothing.
func (w *world) misplaced(t *rapid.T) {
	due := func(c claims.Claim) bool { return !c.PlannedAt.After(w.now()) }
	p := pick(t, "holder", w.workers, func(p *worker) bool { return len(p.targets) > 1 && slices.ContainsFunc(p.queue, due) })
	c := pick(t, "claim", p.queue, due)
	var others []endpoints.ID
	for n := range w.ids {
		if id := w.idAt(n + 1); p.targets[id] != nil && id != c.EndpointID {
			others = append(others, id)
		}
	}
	c.EndpointID = pick(t, "other endpoint", others, func(endpoints.ID) bool { return true })
	w.refuse("misplaced", w.startCall(p, []claims.Claim{c}))
	w.reach("misplaced")
}

// restart starts a live run again, at the current tuple position of its row. After a vacuum that
// may be the position of its claim.
func (w *world) restart(t *rapid.T) {
	p := pick(t, "holder", w.workers, func(p *worker) bool { return len(p.running) > 0 })
	c := pick(t, "running", p.running, func(*execution) bool { return true }).claim
	var at pgtype.TID
	err := w.conn.QueryRow(w.ctx, "SELECT ctid FROM schedules WHERE endpoint_id = $1", c.EndpointID).Scan(&at)
	if errors.Is(err, pgx.ErrNoRows) {
		t.Skip("archived and settled")
	}
	w.ensure(err == nil, "looking for the row of %s: %v", short(c.EndpointID), err)
	c.CTID = claims.CTID{Block: at.BlockNumber, Offset: at.OffsetNumber}
	w.refuse("repeated", w.startCall(p, []claims.Claim{c}))
	w.reach("restart")
}

// refuse makes calls that must change nothing.
func (w *world) refuse(why string, calls ...*call) {
	w.t.Helper()
	for _, c := range calls {
		c.name, c.answer = why+" "+c.name, nil
		judge := c.judge
		c.judge = func(did *changes) { judge(did); w.nothing(c.name, did) }
		w.do(c)
	}
}

// lateCall is a finish in which every answer is late.
func (w *world) lateCall(by *worker) *call {
	c := w.finishCall(by, batchOf(by.results), dispatch.Keep{Within: horizon, Most: 3})
	c.judge = func(did *changes) { w.nothing("a finish under an old token", did) }
	return c
}

// meet runs the race.
func (w *world) meet(first, second *call) {
	w.t.Helper()
	w.note("race of %s and %s", first.name, second.name)
	w.racing = true
	w.elapsed += callTime
	defer func() { w.racing = false }()
	w.shutGate()
	firstDone, secondDone := make(chan struct{}), make(chan struct{})
	go func() { defer close(firstDone); first.exec(w.ctx, w.held) }()
	held := w.await(firstDone, heldName)
	go func() { defer close(secondDone); second.exec(w.ctx, w.free) }()
	waits := w.await(secondDone, freeName)
	w.openGate()
	<-firstDone
	<-secondDone
	found, err := w.drain()
	w.ensure(err == nil, "reading the log of changes: %v", err)
	order := []*call{first, second}
	did := map[*call]*changes{first: found[heldName], second: found[freeName]}
	if held && !waits {
		slices.Reverse(order)
		w.reach("race passed")
	} else if held {
		w.reach("race waited")
	}
	for _, c := range order {
		w.settle(c, did[c])
	}
	for _, c := range order {
		w.hear(c)
	}
}

// contender draws a call that may overlap another.
func (w *world) contender(t *rapid.T, name string) *call {
	well := func(p *worker) bool { return p.reachable() }
	switch rapid.SampledFrom([]string{"claim", "start", "start", "finish", "finish", "heartbeat", "settle", "take over", "change", "change"}).Draw(t, name) {
	case "claim":
		return w.claimCall(pick(t, "claimer", w.workers, well), rapid.IntRange(1, 4).Draw(t, "limit"), w.floor(t))
	case "start":
		p := pick(t, "starter", w.workers, func(p *worker) bool {
			return well(p) && slices.ContainsFunc(p.queue, func(c claims.Claim) bool { return !c.PlannedAt.After(p.now(w)) })
		})
		list := w.due(p)
		if len(list) == 0 {
			t.Skip("nothing is due")
		}
		return w.startCall(p, list)
	case "finish":
		p := pick(t, "finisher", w.workers, func(p *worker) bool { return well(p) && len(p.results) > 0 })
		return w.finishCall(p, batchOf(p.results), keepOf(t))
	case "heartbeat":
		return w.heartbeatCall(pick(t, "heartbeater", w.workers, func(p *worker) bool { return well(p) && len(p.running) > 0 }))
	case "settle":
		if len(w.sweeper.listed) == 0 {
			t.Skip("nothing is lost")
		}
		return w.settleCall(w.sweeper.listed[0])
	case "take over":
		return w.takeOverCall()
	default:
		return w.changeCall(t)
	}
}

// shutGate closes the gate, so that the held stores block at their commit.
func (w *world) shutGate() {
	_, err := w.gate.Exec(w.ctx, "SELECT pg_advisory_lock(7001, 1)")
	w.ensure(err == nil, "shutting the gate: %v", err)
}

func (w *world) openGate() {
	_, err := w.gate.Exec(w.ctx, "SELECT pg_advisory_unlock(7001, 1)")
	w.ensure(err == nil, "opening the gate: %v", err)
}

// await waits until a call has ended or blocks on a lock, and returns which.
func (w *world) await(done <-chan struct{}, app string) (waits bool) {
	for began := time.Now(); time.Since(began) < callLimit; {
		select {
		case <-done:
			return false
		default:
		}
		var locked bool
		err := w.conn.QueryRow(w.ctx, `SELECT EXISTS (SELECT 1 FROM pg_locks l JOIN pg_stat_activity a USING (pid)
			WHERE a.application_name = $1 AND NOT l.granted)`, app).Scan(&locked)
		w.ensure(err == nil, "looking for who waits: %v", err)
		if locked {
			return true
		}
	}
	w.fail("%s neither ends nor waits", app)
	return false
}
