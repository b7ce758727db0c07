package sim

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/google/uuid"

	"rubato/internal/claims"
	"rubato/internal/dispatch"
	httprequest "rubato/internal/dispatch/request"
	"rubato/internal/endpoints"
	"rubato/internal/runs"
)

// slots is the number of concurrent requests of a worker.
const slots = 4

// worker is a worker process as a step function. It obeys the holder's rules. A start that was not
// sent within a second is dropped. A run is canceled and writes nothing once its lock has expired
// on the worker's own clock, less a margin. A finished answer is kept until it is recorded.
type worker struct {
	id      uuid.UUID
	sampled int  // the jumps of the database's clock that its own view of the time has seen
	known   bool // whether it has seen that clock at all
	ahead   time.Duration
	frozen  bool
	cut     bool // from the database

	queue   []claims.Claim
	doubts  []claims.Claim // starts without an answer
	targets map[[16]byte]*httprequest.Target
	running []*execution
	results []result
}

// result is an answer that waits to be recorded.
type result struct {
	run   runs.Run
	owner *execution
}

// execution is a started run in its worker. Instants are readings of the monotonic clock.
type execution struct {
	claim    claims.Claim
	started  dispatch.Started
	spec     endpoints.Spec
	asked    time.Duration // when its start was sent to the database
	deadline time.Duration
	ends     time.Duration // its lock, for the holder; 0: needs no heartbeats
	jumps    int           // of the database's clock, at its start
	seen     int           // those that the worker had noticed by then
	request  *request
}

func (w *world) newWorker() *worker {
	w.ids++
	var id uuid.UUID
	id[0], id[6], id[8] = 0xaa, 0x70, 0x80
	binary.BigEndian.PutUint32(id[12:], w.ids)
	me := &worker{id: id, targets: map[[16]byte]*httprequest.Target{}}
	w.do(w.beatCall(me, "active"))
	return me
}

// now returns the worker's estimate of the database's time.
func (p *worker) now(w *world) time.Time { return epoch.Add(w.elapsed + p.ahead) }

// awake reports whether the process runs; reachable reports whether it is connected to the
// database.
func (p *worker) awake() bool     { return !p.frozen }
func (p *worker) reachable() bool { return !p.frozen && !p.cut }

func (w *world) beatCall(by *worker, state dispatch.State) *call {
	return &call{
		name: "beat " + short(by.id) + " " + string(state),
		run: func(ctx context.Context, s *stores) error {
			_, err := s.executions.Beat(ctx, dispatch.Presence{ID: by.id, Name: "sim", Version: "v0", State: state, Slots: slots, Busy: len(by.running)})
			return err
		},
		judge: func(c *changes) {
			w.only("a beat", c, "workers")
			w.ensure(len(c.workers) == 1 && c.workers[0].after.ID == by.id && c.workers[0].after.HeartbeatAt.Equal(w.now()), "a beat stamped another row")
		},
	}
}

// claimCall claims due endpoints from a low-water mark on; zero: from the oldest on.
func (w *world) claimCall(by *worker, limit int, from time.Time) *call {
	r := claims.Request{Worker: by.id, Limit: limit, Horizon: horizon, LockTTL: lockTTL, From: from}
	var list []claims.Claim
	var now time.Time
	return &call{
		name: "claim by " + short(by.id),
		run: func(ctx context.Context, s *stores) (err error) {
			list, now, err = s.claims.ClaimDue(ctx, r)
			slices.SortFunc(list, func(a, b claims.Claim) int { return bytes.Compare(a.EndpointID[:], b.EndpointID[:]) })
			return err
		},
		judge: func(c *changes) { w.judgeClaim(by, r, list, c) },
		answer: func() {
			by.known, by.sampled, by.ahead = true, w.jumps, now.Sub(epoch)-w.elapsed
			w.take(by, list)
		},
	}
}

// take enqueues claims with their configuration, and releases those with an unreadable
// configuration.
func (w *world) take(by *worker, list []claims.Claim) {
	if len(list) == 0 {
		return
	}
	found := map[[16]byte]*httprequest.Target{}
	w.do(&call{
		name: "targets for " + short(by.id),
		run: func(ctx context.Context, s *stores) (err error) {
			found, err = s.executions.Targets(ctx, list)
			return err
		},
		judge: func(c *changes) { w.nothing("reading targets", c) },
	})
	var lost []claims.Claim
	for _, c := range list {
		if target, is := found[c.EndpointID]; is { // A newer claim of an endpoint voids the older one.
			by.queue = slices.DeleteFunc(by.queue, sameEndpoint(c))
			by.queue, by.targets[c.EndpointID] = append(by.queue, c), target
		} else {
			lost = append(lost, c)
		}
	}
	if len(lost) > 0 {
		w.do(w.releaseCall(by, lost))
	}
}

func (w *world) releaseCall(by *worker, list []claims.Claim) *call {
	return &call{
		name: "release by " + short(by.id),
		run: func(ctx context.Context, s *stores) error {
			_, err := s.claims.Release(ctx, by.id, list)
			return err
		},
		judge: func(c *changes) { w.judgeRelease(by, list, c) },
	}
}

// due dequeues due claims into free slots.
func (w *world) due(by *worker) []claims.Claim {
	var list, rest []claims.Claim
	free := slots - len(by.running) - len(by.results)
	for _, c := range by.queue {
		if by.known && len(list) < free && !c.PlannedAt.After(by.now(w)) {
			list = append(list, c)
		} else {
			rest = append(rest, c)
		}
	}
	by.queue = rest
	return list
}

func sameEndpoint(c claims.Claim) func(claims.Claim) bool {
	return func(other claims.Claim) bool { return other.EndpointID == c.EndpointID }
}

func (w *world) startCall(by *worker, list []claims.Claim) *call {
	starts := by.starts(list)
	asked, seen := w.elapsed, by.sampled // A copy that arrives later goes by the view that it was sent by.
	var told []dispatch.Started
	return &call{
		name: "start by " + short(by.id),
		run: func(ctx context.Context, s *stores) (err error) {
			told, err = s.executions.Start(ctx, dispatch.Starting{Worker: by.id, List: starts, LockTTL: lockTTL})
			slices.SortFunc(told, func(a, b dispatch.Started) int { return bytes.Compare(a.EndpointID[:], b.EndpointID[:]) })
			return err
		},
		judge: func(c *changes) { w.judgeStart(by, seen, starts, told, c) },
		answer: func() {
			for _, s := range told {
				w.launch(by, startOf(starts, s.RunID).Claim, s, asked)
			}
			w.refused(by, slices.DeleteFunc(slices.Clone(starts), func(s dispatch.Start) bool { return toldOf(told, s.RunID) }))
		},
	}
}

// launch begins an execution. The request is sent in a separate step, so that a freeze can happen
// between them.
func (w *world) launch(by *worker, c claims.Claim, s dispatch.Started, asked time.Duration) {
	w.bases[s.RunID] = s.Basis
	e := &execution{claim: c, started: s, spec: *by.targets[c.EndpointID].Spec, asked: asked, jumps: w.jumps, seen: by.sampled}
	e.deadline = w.elapsed + e.spec.MaxExecutionTime
	if ttl := s.LockedUntil.Sub(s.StartedAt); ttl < e.spec.MaxExecutionTime {
		e.ends = asked + ttl - lockMargin
	}
	by.running = append(by.running, e)
}

// end passes the outcome of an execution to the finisher.
func (w *world) end(by *worker, e *execution, o runs.Outcome) {
	w.wire.close(e.request, w.elapsed)
	w.forget(by, e)
	by.results = append(by.results, result{owner: e, run: runs.Run{
		ID: e.started.RunID, EndpointID: e.started.EndpointID, TenantID: e.started.TenantID, ScheduledFor: e.claim.Slot,
		Attempt: e.claim.Attempt, InfraAttempt: e.claim.InfraAttempt, Source: e.claim.Source, ClaimToken: e.claim.Token, WorkerID: by.id,
		StartedAt: e.started.StartedAt, FinishedAt: e.started.StartedAt.Add(w.elapsed - e.asked), Outcome: o,
	}})
}

func (w *world) forget(by *worker, e *execution) {
	by.running = slices.DeleteFunc(by.running, func(other *execution) bool { return other == e })
}

func (w *world) heartbeatCall(by *worker) *call {
	var held []claims.FencedRun
	for _, e := range by.running {
		if e.ends > 0 {
			held = append(held, claims.FencedRun{EndpointID: e.started.EndpointID, RunID: e.started.RunID, Token: e.claim.Token})
		}
	}
	asked := w.elapsed
	var kept, over [][16]byte
	return &call{
		name: "heartbeat by " + short(by.id),
		run: func(ctx context.Context, s *stores) (err error) {
			kept, over, err = s.claims.ExtendLocks(ctx, by.id, held, lockTTL)
			return err
		},
		judge: func(c *changes) { w.judgeHeartbeat(by, held, kept, c) },
		answer: func() {
			for _, e := range slices.Clone(by.running) {
				h := claims.FencedRun{EndpointID: e.started.EndpointID, RunID: e.started.RunID, Token: e.claim.Token}
				switch {
				case !slices.Contains(held, h):
				case slices.Contains(over, [16]byte(e.started.RunID)):
					w.end(by, e, runs.Outcome{Status: runs.Lost, Reason: runs.LockLost, MaybeSent: true})
					w.reach("lock over for the database")
				case !slices.Contains(kept, [16]byte(e.started.RunID)):
					w.loseLock(by, e)
				case asked < e.ends:
					e.ends = asked + lockTTL - lockMargin
				}
			}
		},
	}
}

// loseLock cancels a request. The process that settled the run has written its record.
func (w *world) loseLock(by *worker, e *execution) {
	w.note("%s lost the lock of run %s", short(by.id), runName(e.started.RunID))
	w.wire.close(e.request, w.elapsed)
	w.forget(by, e)
	w.reach("lock lost by its holder")
}

func (w *world) finishCall(by *worker, batch []runs.Run, keep dispatch.Keep) *call {
	f := dispatch.Finish{Worker: by.id, Runs: batch, Keep: keep, LockTTL: lockTTL, Bases: make([]dispatch.Basis, len(batch))}
	for i, run := range batch {
		f.Bases[i] = w.bases[run.ID] // None where the answer to the start was lost: then the rows are read.
	}
	var done dispatch.Finished
	return &call{
		name: "finish by " + short(by.id),
		run: func(ctx context.Context, s *stores) (err error) {
			f.Now = w.now() // A worker's clock shows the database's time.
			done, err = s.executions.Finish(ctx, f)
			slices.SortFunc(done.Kept, func(a, b claims.Claim) int { return bytes.Compare(a.EndpointID[:], b.EndpointID[:]) })
			return err
		},
		judge: func(c *changes) { w.judgeFinish(f, done, c) },
		answer: func() {
			by.results = slices.DeleteFunc(by.results, func(r result) bool { return runOf(batch, r.run.ID) != nil })
			w.take(by, done.Kept)
		},
	}
}

// watch lets a process react to its monotonic clock: ended locks and deadlines. A frozen process
// sees all of them when it resumes.
func (w *world) watch(by *worker) {
	if !by.awake() {
		return
	}
	for _, e := range slices.Clone(by.running) {
		if e.ends > 0 && w.elapsed >= e.ends+watchPeriod {
			w.wire.close(e.request, e.ends+watchPeriod)
			w.end(by, e, runs.Outcome{Status: runs.Lost, Reason: runs.LockLost, MaybeSent: true})
			w.reach("lock over for its holder")
			continue
		}
		if e.request != nil && w.elapsed >= min(e.deadline, e.request.timeout) {
			w.wire.close(e.request, min(e.deadline, e.request.timeout))
			w.end(by, e, runs.Outcome{Status: runs.TimedOut, Reason: runs.Timeout, MaybeSent: true})
		}
	}
}
