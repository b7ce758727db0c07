package claims

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"rubato/internal/loop"
)

// heartbeatRetry is the delay after a failed heartbeat. Waiting a whole period would lose the lock
// in an outage shorter than the lock.
const heartbeatRetry = time.Second

// Heartbeater extends the locks of runs that outlast their first lock, all in one statement every
// third of a lock. It cancels a run if its lock was lost, or has expired on this process's own
// clock. Its methods are safe for concurrent use, except for a second active Run.
type Heartbeater struct {
	worker  [16]byte
	store   Store
	ttl     time.Duration
	logger  *slog.Logger
	metrics *Metrics
	gate    *HeartbeatGate
	loops   *loop.Runner

	// mu guards the map and the end of each Lock in it.
	mu    sync.Mutex
	locks map[[16]byte]*Lock // by run ID
	// some wakes Run when the first lock arrives. It has a buffer of one, so that Hold never
	// blocks.
	some chan struct{}
}

// NewHeartbeater returns a heartbeater for the locks of one worker.
func NewHeartbeater(
	worker [16]byte, store Store, ttl time.Duration, logger *slog.Logger, metrics *Metrics, loops *loop.Runner,
) *Heartbeater {
	return &Heartbeater{
		worker:  worker,
		store:   store,
		ttl:     ttl,
		logger:  logger,
		metrics: metrics,
		gate:    NewHeartbeatGate(logger),
		loops:   loops,
		locks:   map[[16]byte]*Lock{},
		some:    make(chan struct{}, 1),
	}
}

// Gate returns the heartbeat gate of the worker. The worker's other heartbeats report their results
// to it, too.
func (h *Heartbeater) Gate() *HeartbeatGate { return h.gate }

// Hold starts to extend a lock. The heartbeater owns the lock from now on.
func (h *Heartbeater) Hold(l *Lock) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.locks[l.RunID] = l
	if len(h.locks) == 1 {
		select {
		case h.some <- struct{}{}:
		default:
		}
	}
}

// Drop stops extending the lock of a finished run.
func (h *Heartbeater) Drop(run [16]byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.locks, run)
}

// Until returns when the lock of a run ends on this process's clock, as last extended. held is
// false if the heartbeater does not hold the lock, or no longer.
func (h *Heartbeater) Until(run [16]byte) (ends time.Time, held bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l, held := h.locks[run]
	if !held {
		return time.Time{}, false
	}
	return l.ends, true
}

// Run extends locks until ctx ends. The caller ends ctx after the last run has finished, because a
// run loses its lock without heartbeats.
func (h *Heartbeater) Run(ctx context.Context) {
	period := h.ttl / 3
	timer := time.NewTimer(period)
	defer timer.Stop()
	often := min(heartbeatRetry/2, period)
	// watch is a timer of its own, because expired locks must be detected while a heartbeat hangs.
	watch := time.NewTimer(often)
	defer watch.Stop()
	beats := make(chan error, 1)
	var beating sync.WaitGroup
	defer beating.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			beating.Go(func() {
				var err error
				if fault := h.loops.Contain(loop.Heartbeat, func() { err = h.beat(ctx) }); fault != nil {
					err = fault
				}
				beats <- err
			})
		case err := <-beats:
			next := period
			if err == nil || ctx.Err() == nil {
				h.gate.Beat(RunHeartbeat, err)
			}
			if err != nil && ctx.Err() == nil {
				h.logger.Warn("heartbeat failed; trying again in a second", "error", err)
				next = min(heartbeatRetry, period)
			}
			timer.Reset(next)
		case <-h.some:
			watch.Reset(often)
		case <-watch.C:
			if h.endOver(time.Now()) {
				watch.Reset(often)
			}
		}
	}
}

// Lag returns the longest time since a held lock was granted or extended. Normally it is little
// more than a third of a lock. It is zero if no run needs heartbeats.
func (h *Heartbeater) Lag() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	var lag time.Duration
	for _, l := range h.locks {
		lag = max(lag, h.ttl-lockMargin-time.Until(l.ends))
	}
	return lag
}

// beat extends every lock in one statement and cancels the runs with a lost lock.
func (h *Heartbeater) beat(ctx context.Context) error {
	held := h.held()
	if len(held) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, h.ttl/6)
	defer cancel()

	sent := time.Now()
	kept, over, err := h.store.ExtendLocks(ctx, h.worker, held, h.ttl)
	h.metrics.heartbeat(err)
	if err != nil {
		return fmt.Errorf("extending %d locks: %w", len(held), err)
	}
	h.settle(held, setOf(kept), setOf(over), sent)
	return nil
}

func (h *Heartbeater) held() []FencedRun {
	h.mu.Lock()
	defer h.mu.Unlock()
	held := make([]FencedRun, 0, len(h.locks))
	for _, l := range h.locks {
		held = append(held, l.FencedRun)
	}
	return held
}

func setOf(runs [][16]byte) map[[16]byte]bool {
	set := make(map[[16]byte]bool, len(runs))
	for _, id := range runs {
		set[id] = true
	}
	return set
}

// settle applies the result of a heartbeat to the locks that it named. It extends the kept ones. It
// cancels the runs with a lost lock, and those in over, which expired on the database's clock
// alone, e.g. after a clock step.
func (h *Heartbeater) settle(asked []FencedRun, kept, over map[[16]byte]bool, sent time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range asked {
		l, live := h.locks[a.RunID]
		switch {
		case !live: // finished meanwhile
		case kept[a.RunID]:
			l.extend(sent, h.ttl)
		case over[a.RunID]: // No other process knows that the request ends now.
			h.lose(l, ErrLockOver)
		default:
			h.lose(l, ErrLockLost)
		}
	}
}

// endOver cancels the runs with a lock that has expired on this process's clock. It reports whether
// any lock is left.
func (h *Heartbeater) endOver(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.locks {
		if l.over(now) {
			h.lose(l, ErrLockOver)
		}
	}
	return len(h.locks) > 0
}

func (h *Heartbeater) lose(l *Lock, cause error) {
	l.cancel(cause)
	delete(h.locks, l.RunID)
	if errors.Is(cause, ErrLockOver) {
		h.metrics.lost("expired")
		return
	}
	h.metrics.lost("revoked")
}
