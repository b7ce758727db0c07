// Package dispatch is the worker: it claims what comes due, waits, starts each run at its due time, sends the one request, and
// records how it ended together with what comes next.
//
// One loop per step, one file per loop: claims.Claimer claims into the queue; the starter takes what is due out of it, commits the
// starts and hands each run to a goroutine of the crew; the finisher writes the results; claims.Heartbeater extends the locks of
// long runs; presence tells the others that this worker lives; the cancel loop ends what users want ended; the backlog loop asks
// again for what the database could not be asked for; the slot loop adapts how many runs are under way at once. Loops pass values
// and hold no database state that matters: the database is authoritative, every statement is fenced by the claim token, and what
// comes back decides.
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
	"rubato/internal/egress"
	"rubato/internal/loop"
	"rubato/internal/oauth2"
	"rubato/internal/runs"
)

// Executions is what running needs of the database. Every method is one transaction.
type Executions interface {
	Contact
	Doubts
	// Targets returns what the claims are to call, at the version that each claim names.
	Targets(ctx context.Context, list []claims.Claim) (map[[16]byte]*Target, error)
	// Start makes live runs of claims whose time has come. It returns those whose token was unchanged; no other may be sent.
	Start(ctx context.Context, s Starting) ([]Started, error)
	// Finish records finished runs and plans what follows. Answers to runs that were settled by somebody else change nothing.
	Finish(ctx context.Context, f Finish) (Finished, error)
}

// Contact is how a worker and everybody else hear of each other.
type Contact interface {
	// Beat registers the worker, or tells that it lives.
	Beat(ctx context.Context, p Presence) error
	// Fleet returns the sum of the active workers, each by its last beat.
	Fleet(ctx context.Context) (Fleet, error)
	// ProbeSpace returns nil if the database has room on its disk for new data. It leaves nothing behind.
	ProbeSpace(ctx context.Context) error
	// Cancels returns the live runs of a worker that somebody asked to cancel.
	Cancels(ctx context.Context, worker [16]byte) ([]Cancel, error)
}

// Doubts are what a worker asks about starts of its own.
type Doubts interface {
	// Own returns which of these starts are live in the worker's hands, for one that was not told.
	Own(ctx context.Context, worker [16]byte, list []Start) ([]Started, error)
	// Confirm says whether a live run may still be sent: it is held under this token, its lock is not over, and its endpoint is not paused.
	Confirm(ctx context.Context, endpoint [16]byte, held claims.Held) (bool, error)
}

// Tracer follows runs for those who collect traces. It must know the runs from their starts.
type Tracer interface {
	// Request begins the request of a run. It returns the traceparent that tells the target of it, empty where the run is not known, and
	// what ends it.
	Request(id runs.ID, r egress.Request) (traceparent string, done func(egress.Response, error))
	// Dropped tells that this worker leaves the record of a run to somebody else.
	Dropped(id runs.ID)
}

// Config says what a worker works with. Fields without a default are required.
type Config struct {
	Name     string // of the machine, for people
	Version  string // of the program
	Slots    int    // how many requests may be under way at once, at most
	MinSlots int    // how few the worker may come down to where it cannot take more; default Slots: always so many
	// Hosts bounds the requests in flight to each host, with those that Egress sends for others; nil: no bound.
	Hosts        *ready.Hosts
	Rules        claims.Rules
	PollInterval time.Duration
	Grace        time.Duration // how long a stopping worker waits for the runs that are under way
	Claims       claims.Store
	Executions   Executions
	Egress       *egress.Client
	Allowances   Allowances // what tenants may call besides what everybody may; nil: nothing
	Tracer       Tracer     // nil: nobody collects traces
	Secrets      Secrets
	Logger       *slog.Logger
	Registerer   prometheus.Registerer

	cancelEvery time.Duration // default cancelPeriod
}

// Worker runs endpoints. Use New, then Run once.
type Worker struct {
	cfg      Config
	id       [16]byte
	clock    *clock
	queue    *ready.Queue[*waiting]
	backlog  backlog
	underway *underway
	crew     *crew
	claimer  *claims.Claimer
	beats    *claims.Heartbeater
	calls    *calls
	results  chan result
	metrics  *metrics
	logger   *slog.Logger
	loops    *loop.Runner

	starts  streak // of commits of starts
	records streak // of commits of records
	signs   streak // of signs of life
	space   streak // of probes for room on the database's disk

	draining atomic.Bool
	lastSeen atomic.Int64 // when the database last answered a claim, as a mark of the clock
	lastFree atomic.Int64 // when a slot was last free, likewise
	share    atomic.Int64 // maximum number of claims in its queue at which it keeps another due time; see learnShare
}

// New returns a worker that does nothing until Run.
func New(cfg Config) *Worker {
	w := &Worker{
		cfg: cfg, id: uuid.Must(uuid.NewV7()), clock: newClock(), queue: ready.NewQueue[*waiting](cfg.Hosts), underway: newUnderway(), crew: newCrew(),
		results: make(chan result, min(cfg.Slots, finishBatch)), metrics: newMetrics(cfg.Registerer),
		starts: streak{every: startWait + startRetry + time.Second}, records: streak{every: finishWait + finishRetryMax + time.Second},
	}
	w.queue.SetSlots(newSlotLimit(cfg).now)
	w.share.Store(math.MaxInt64)
	w.observe(cfg.Registerer)
	w.logger = cfg.Logger.With("component", "dispatch", "worker_id", uuid.UUID(w.id).String())
	w.loops = loop.NewRunner(w.logger, cfg.Registerer)
	w.calls = &calls{
		egress: cfg.Egress, allowances: cfg.Allowances, secrets: cfg.Secrets, tracer: cfg.Tracer, tokens: oauth2.New(cfg.Egress),
		now: w.clock.now, judging: newJudging(), logger: w.logger,
	}
	counts := claims.NewMetrics(cfg.Registerer)
	w.claimer = claims.NewClaimer(claims.ClaimerConfig{
		Worker: w.id, Store: cfg.Claims, Taker: w, Rules: cfg.Rules, PollInterval: cfg.PollInterval,
		Logger: w.logger, Metrics: counts,
	})
	w.beats = claims.NewHeartbeater(w.id, cfg.Claims, cfg.Rules.LockTTL, w.logger, counts, w.loops)
	return w
}

// Run works until ctx ends. Then it stops claiming, gives back what it has not started, waits up to Grace for the requests under
// way, settles the others as lost with the reason shutdown, and returns when everything is written or cannot be, within Grace, recordGrace
// and farewell of the end of ctx.
func (w *Worker) Run(ctx context.Context) error {
	// What outlives ctx: the requests under way, their heartbeats and their records.
	work, endWork := context.WithCancelCause(context.WithoutCancel(ctx))
	defer endWork(nil)
	records, endRecords := context.WithCancel(context.WithoutCancel(ctx))
	defer endRecords()

	if err := w.greet(context.WithoutCancel(ctx), Active); err != nil {
		return fmt.Errorf("registering the worker: %w", err)
	}
	var intake, keep sync.WaitGroup
	intake.Go(func() { w.loops.Run(ctx, loop.Claim, w.claimer.Run) })
	intake.Go(func() { w.loops.Run(ctx, loop.Start, func(ctx context.Context) { w.startLoop(ctx, work) }) })
	intake.Go(func() { w.loops.Run(ctx, loop.Backlog, w.backlogLoop) })
	intake.Go(func() {
		w.loops.Run(ctx, loop.Slots, func(ctx context.Context) { w.slotLoop(ctx, newStrainGauge().read) })
	})
	keep.Go(func() { w.loops.Run(records, loop.Heartbeat, w.beats.Run) })
	keep.Go(func() { w.loops.Run(records, loop.Presence, w.presenceLoop) })
	keep.Go(func() { w.loops.Run(records, loop.Space, w.spaceLoop) })
	keep.Go(func() { w.loops.Run(records, loop.Cancel, w.cancelLoop) })
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		// Its end is that of the results: if it ended sooner, runs would wait for it for ever.
		w.loops.Run(context.WithoutCancel(ctx), loop.Finish, func(context.Context) { w.finishLoop(records) })
	}()

	<-ctx.Done()
	w.draining.Store(true)
	w.logger.Info("draining: no new claims; waiting for requests under way", "busy", w.queue.Busy(), "grace", w.cfg.Grace)
	// Every bound counts from here, whatever waits for a database that is away: each step would wait behind the one before it.
	left, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.cfg.Grace+recordGrace+farewell)
	defer cancel()
	defer time.AfterFunc(w.cfg.Grace, func() { endWork(errShutdown) }).Stop()
	defer time.AfterFunc(w.cfg.Grace+recordGrace, endRecords).Stop() // What could not be written is settled by others.
	intake.Wait()
	w.release(records)
	w.crew.wait()
	w.crew.end()
	w.calls.tokens.Close()

	close(w.results)
	<-finished
	endRecords()
	keep.Wait()     // No word of a draining worker may follow its goodbye.
	w.release(left) // What a record that was under way has kept.
	if err := w.greet(left, Inactive); err != nil {
		return fmt.Errorf("telling that the worker has ended: %w", err)
	}
	return nil
}

// greet tells that the worker begins, or that it has ended.
func (w *Worker) greet(ctx context.Context, state State) error {
	ctx, cancel := context.WithTimeout(ctx, recordGrace)
	defer cancel()
	return w.announce(ctx, state)
}

const (
	// recordGrace is how long a stopping worker tries to write what it knows beyond the grace for requests.
	recordGrace = 5 * time.Second
	// farewell is what is left after that to say goodbye.
	farewell = time.Second
)

// release gives back every claim that was not started, so that others can take it at once, and ends the runs that did start although
// their starts were answered by nothing.
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
		w.logger.Warn("releasing claims failed; their locks will run out instead", "claims", len(list), "error", err)
	}
	ended, err := w.startedUnheard(ctx, queued)
	if err != nil {
		w.logger.Warn("starts whose answers were lost stay in doubt; others settle them", "error", err)
	}
	if len(ended) > 0 {
		w.record(ctx, withoutBasis(ended))
	}
}

// Wake asks for a claim at once when something came due at an instant of database time that lies within the horizon.
func (w *Worker) Wake(due time.Time) {
	if now, known := w.clock.now(); !known || !due.After(now.Add(w.cfg.Rules.Horizon)) {
		w.claimer.Wake()
	}
}
