// Package dispatch is the worker. It claims endpoints shortly before they are due, starts each run
// at its due time, sends its request, and records the outcome together with the next due time.
//
// Each step is a loop with a file of its own:
//   - claims.Claimer claims due endpoints into the fair queue.
//   - The starter takes due claims from the queue, commits their starts in batches, and launches
//     each run on the goroutine pool.
//   - The finisher writes the outcomes in batches.
//   - claims.Heartbeater extends the locks of long runs.
//   - The presence loop writes the heartbeat of the worker itself.
//   - The cancel loop cancels runs at the request of users.
//   - The breaker loop reports failures of hosts and reads which hosts may be called.
//   - The backlog loop retries reads and releases that failed.
//   - The slot loop adapts the concurrency limit.
//   - The poll loop asks the status URLs of suspended runs.
//
// A run passes these files in this order: intake.go queues its claim, package ready hands it out,
// starter.go commits its start after probes.go has asked the breaker of its host, execute.go sends
// its request by package request, detach.go and suspension.go move it out of the way of its
// endpoint, and finisher.go records it.
//
// Loops pass values and cache no authoritative state. The database is authoritative: the claim
// token fences every statement, and the returned rows decide.
package dispatch

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"rubato/internal/claims"
	"rubato/internal/dispatch/ready"
	"rubato/internal/dispatch/request"
	"rubato/internal/egress"
	"rubato/internal/loop"
	"rubato/internal/runs"
)

// Executions is the database of a worker. Every method is one transaction.
type Executions interface {
	WorkerStore
	Starts
	StartChecks
	// Targets returns the targets of claims by the keys of their rows.
	Targets(ctx context.Context, list []claims.Claim) (map[[16]byte]*request.Target, error)
	// Finish records outcomes and plans the next due times. An outcome of a run that another
	// process has settled changes nothing.
	Finish(ctx context.Context, f Finish) (Finished, error)
}

// Starts turns claims into live runs.
type Starts interface {
	// Start turns due claims into live runs. The fence refuses claims with an outdated token. Start
	// returns the started runs; no request may be sent for the others.
	Start(ctx context.Context, s Starting) ([]Started, error)
	// Detach moves a live run that holds the row of its endpoint into a row of its own, and plans the
	// next due time of the endpoint. It returns the key of the row; zero: the endpoint has the most
	// detached runs, so the run stays. ours is false if the worker lost the run. It may be repeated
	// after an error.
	Detach(ctx context.Context, d Detaching) (item [16]byte, ours bool, err error)
}

// WorkerStore is the part of the database that concerns workers themselves: presence and cancel
// requests.
type WorkerStore interface {
	// Beat registers the worker, or records its presence heartbeat. It reports whether an operator
	// has ordered the worker to drain.
	Beat(ctx context.Context, p Presence) (drain bool, err error)
	// Fleet returns the totals of the active workers, each as of its last heartbeat, the
	// index of a worker among them, and the tag sets that it serves.
	Fleet(ctx context.Context, worker [16]byte) (Fleet, error)
	// ProbeSpace returns nil if the database has room on its disk for new data. It leaves nothing
	// behind.
	ProbeSpace(ctx context.Context) error
	// Cancels returns the live runs of a worker for which a cancel was requested.
	Cancels(ctx context.Context, worker [16]byte) ([]Cancel, error)
}

// StartChecks is the part of the database that resolves doubts about the worker's own starts.
type StartChecks interface {
	// LiveStarts returns those of the starts that are live runs of this worker. It serves a worker
	// that got no answer to a start.
	LiveStarts(ctx context.Context, worker [16]byte, list []Start) ([]Started, error)
	// Confirm reports whether the request of a live run may still be sent: the run is locked under
	// this token, the lock has not expired, and the endpoint is not paused.
	Confirm(ctx context.Context, endpoint [16]byte, held claims.FencedRun) (bool, error)
}

// Tracer exports traces of runs. It learns of a run at its start.
type Tracer interface {
	request.Tracer
	// Dropped discards the trace of a run that another process records.
	Dropped(id runs.ID)
}

// Config holds the settings and dependencies of a worker. Fields without a default are required.
type Config struct {
	// Name is the display name of the machine.
	Name string
	// Version is the version of the program.
	Version string
	// Slots is the maximum number of concurrent runs.
	Slots int
	// MinSlots is the lowest concurrency limit under overload. The default is Slots, which makes
	// the limit constant.
	MinSlots int
	// Hosts bounds the requests in flight to each host. It is shared with the other users of
	// Egress; nil: no bound.
	Hosts *ready.Hosts
	// Placement says which endpoints the worker may run. The zero value: those without tags.
	Placement    Placement
	Rules        claims.Rules
	PollInterval time.Duration
	// Grace is the time that a graceful shutdown waits for runs in progress.
	Grace      time.Duration
	Claims     claims.Store
	Executions Executions
	// Suspensions is the store of asynchronous runs; nil: an answer 202 always ends its run.
	Suspensions Suspensions
	// Chains starts the chains of endpoints; nil: they cannot be started.
	Chains request.Chains
	// PublicURL is the URL of the API for targets, without a trailing slash; empty: their requests
	// name no callback URL.
	PublicURL string
	Egress    *egress.Client
	// Allowances are the tenants' own entries of the egress allow list; nil: none.
	Allowances request.Allowances
	// Tracer exports traces; nil: none are exported.
	Tracer  Tracer
	Secrets request.Secrets
	// Breakers is the store of the circuit breakers of hosts; nil: every host is called.
	Breakers BreakerStore
	// SharedHosts makes all tenants share the breakers.
	SharedHosts bool
	// LatencyLimits lets slow answers limit the requests in flight to a host.
	LatencyLimits bool
	// load replaces the sampler of the process's load for these limits, in tests; nil: nothing does.
	load       func() loadSample
	Logger     *slog.Logger
	Registerer prometheus.Registerer

	// cancelEvery has the default cancelPeriod.
	cancelEvery time.Duration
}

// Worker runs endpoints. Use New, then Run once.
type Worker struct {
	cfg      Config
	id       [16]byte
	clock    *clock
	queue    *ready.Queue[*waiting]
	backlog  backlog
	breakers *breakers
	underway *cancelableRuns
	pool     *goroutinePool
	claimer  *claims.Claimer
	beats    *claims.Heartbeater
	caller   *request.Caller
	results  chan result
	metrics  *metrics
	logger   *slog.Logger
	loops    *loop.Runner

	// Consecutive failures of the transactions of starts and of records, of presence heartbeats,
	// of probes for disk space, and of syncs of breakers.
	starts, records, signs, space, breakerFaults failureTracker

	// draining is set once the worker shuts down.
	draining atomic.Bool
	// drainOrdered is set while an operator's order to drain is in force.
	drainOrdered atomic.Bool
	// orders wakes the presence loop, which reads orders. It has a buffer of one, so that
	// OrdersChanged never blocks.
	orders chan struct{}
	// lastSeen is when the database last answered a claim, as a mark of clock.
	lastSeen atomic.Int64
	// lastFree is when a slot was last free, as a mark of clock.
	lastFree atomic.Int64
	// share is the quota of claims in the queue. At the quota no further due time is kept; see
	// learnFleet.
	share atomic.Int64
	// tagSets are the tag sets that the worker serves; see learnFleet.
	tagSets atomic.Pointer[claims.TagSets]
}

// New returns a worker that does nothing until Run.
func New(cfg Config) *Worker {
	databaseClock, counts := newClock(), newMetrics(cfg.Registerer)
	w := &Worker{
		cfg:      cfg,
		id:       uuid.Must(uuid.NewV7()),
		clock:    databaseClock,
		queue:    ready.NewQueue[*waiting](cfg.Hosts),
		underway: newUnderway(),
		breakers: newBreakers(cfg, databaseClock, counts.trips),
		pool:     newGoroutinePool(),
		results:  make(chan result, min(cfg.Slots, finishBatch)),
		orders:   make(chan struct{}, 1),
		metrics:  counts,
		starts:   failureTracker{every: startWait + startRetry + time.Second},
		records:  failureTracker{every: finishWait + finishRetryMax + time.Second},
	}
	w.queue.SetSlots(newSlotLimit(cfg).now)
	w.share.Store(math.MaxInt64)
	w.tagSets.Store(&claims.TagSets{Exclusive: cfg.Placement.Exclusive})
	w.observe(cfg.Registerer)
	w.logger = cfg.Logger.With("component", "dispatch", "worker_id", uuid.UUID(w.id).String())
	w.loops = loop.NewRunner(w.logger, cfg.Registerer)
	w.caller = request.New(request.Config{
		Egress:     cfg.Egress,
		Allowances: cfg.Allowances,
		Secrets:    cfg.Secrets,
		Tracer:     cfg.Tracer,
		Now:        w.clock.now,
		Callbacks:  cfg.PublicURL,
		Chains:     cfg.Chains,
		Logger:     w.logger,
	})
	claimed := claims.NewMetrics(cfg.Registerer)
	w.claimer = claims.NewClaimer(claims.ClaimerConfig{
		Worker:       w.id,
		Store:        cfg.Claims,
		Taker:        w,
		Rules:        cfg.Rules,
		PollInterval: cfg.PollInterval,
		Logger:       w.logger,
		Metrics:      claimed,
	})
	w.beats = claims.NewHeartbeater(w.id, cfg.Claims, cfg.Rules.LockTTL, w.logger, claimed, w.loops)
	return w
}

// Run works until ctx ends, and then shuts down gracefully. It stops claiming, releases the claims
// that have not started, and waits up to Grace for the requests in flight. Requests that outlast
// Grace are canceled and recorded as lost with the reason shutdown. Run returns after all records
// are written, or at the latest after Grace, recordGrace and farewell together.
func (w *Worker) Run(ctx context.Context) error {
	// Requests in flight, their heartbeats and their records outlive ctx.
	work, endWork := context.WithCancelCause(context.WithoutCancel(ctx))
	defer endWork(nil)
	records, endRecords := context.WithCancel(context.WithoutCancel(ctx))
	defer endRecords()

	if err := w.writeState(context.WithoutCancel(ctx), Active); err != nil {
		return fmt.Errorf("register the worker: %w", err)
	}
	w.learnFleet(context.WithoutCancel(ctx))
	var intake, keep sync.WaitGroup
	intake.Go(func() { w.loops.Run(ctx, loop.Claim, w.claimer.Run) })
	intake.Go(func() { w.loops.Run(ctx, loop.Start, func(ctx context.Context) { w.startLoop(ctx, work) }) })
	intake.Go(func() { w.loops.Run(ctx, loop.Backlog, w.backlogLoop) })
	if w.cfg.Suspensions != nil {
		intake.Go(func() { w.loops.Run(ctx, loop.StatusPolls, w.pollLoop) })
	}
	intake.Go(func() {
		w.loops.Run(ctx, loop.Slots, func(ctx context.Context) { w.slotLoop(ctx, newLoadSampler().read) })
	})
	keep.Go(func() { w.loops.Run(records, loop.Heartbeat, w.beats.Run) })
	keep.Go(func() { w.loops.Run(records, loop.Presence, w.presenceLoop) })
	keep.Go(func() { w.loops.Run(records, loop.Space, w.spaceLoop) })
	keep.Go(func() { w.loops.Run(records, loop.Cancel, w.cancelLoop) })
	keep.Go(func() {
		w.loops.Run(records, loop.Breakers, func(ctx context.Context) { w.breakerLoop(ctx, w.loadForLimits()) })
	})
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		// The finisher ends when results is closed. If it ended earlier, runs would block forever
		// at sending to results.
		w.loops.Run(context.WithoutCancel(ctx), loop.Finish, func(context.Context) { w.finishLoop(records) })
	}()

	<-ctx.Done()
	w.draining.Store(true)
	w.logger.Info("graceful shutdown: no new claims; waiting for requests in flight", "busy", w.queue.Busy(), "grace", w.cfg.Grace)
	// All timeouts count from here. Otherwise they would add up while the database is unavailable,
	// because each step waits for the one before it.
	left, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.cfg.Grace+recordGrace+finalStateGrace)
	defer cancel()
	defer time.AfterFunc(w.cfg.Grace, func() { endWork(request.ErrShutdown) }).Stop()
	// The sweeper settles runs without a record.
	defer time.AfterFunc(w.cfg.Grace+recordGrace, endRecords).Stop()
	intake.Wait()
	w.release(records)
	w.pool.wait()
	w.pool.end()
	w.caller.Close()

	close(w.results)
	<-finished
	endRecords()
	keep.Wait()     // A heartbeat after the final state would mark the worker as draining again.
	w.release(left) // Claims of the next due times that the last records have kept.
	if err := w.writeState(left, Inactive); err != nil {
		return fmt.Errorf("mark the worker inactive: %w", err)
	}
	return nil
}

// writeState writes the first or the last state of the worker, with a timeout of its own.
func (w *Worker) writeState(ctx context.Context, state State) error {
	ctx, cancel := context.WithTimeout(ctx, recordGrace)
	defer cancel()
	_, err := w.announce(ctx, state)
	return err
}

const (
	// recordGrace is the time after Grace in which a graceful shutdown writes the remaining
	// records.
	recordGrace = 5 * time.Second
	// finalStateGrace is the time after recordGrace for the last state of the worker.
	finalStateGrace = time.Second
)

// release releases every claim that has not started, and wakes the other workers to take them. It
// also ends the live runs of doubtful claims.
func (w *Worker) release(ctx context.Context) {
	queued := w.queue.Clear()
	unread, unreturned := w.backlog.take()
	list := slices.Concat(claimsOf(queued), unread, unreturned)
	if len(list) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, recordGrace)
	defer cancel()
	if _, err := w.cfg.Claims.Release(ctx, w.id, list); err != nil {
		w.logger.Warn("release claims failed; they stay locked until their locks expire", "claims", len(list), "error", err)
	} else {
		_ = w.cfg.Claims.Wake(ctx) // Polling finds the claims within a poll interval.
	}
	ended, err := w.unconfirmedRuns(ctx, queued)
	if err != nil {
		w.logger.Warn("look up unconfirmed starts failed; the sweeper settles their runs", "error", err)
	}
	if len(ended) > 0 {
		w.record(ctx, withoutBasis(ended))
	}
}

// Wake triggers a claim at once if due, in database time, lies within the horizon.
func (w *Worker) Wake(due time.Time) {
	if now, known := w.clock.now(); !known || !due.After(now.Add(w.cfg.Rules.Horizon)) {
		w.claimer.Wake()
	}
}
