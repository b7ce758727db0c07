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

// heartbeatRetry is how soon a failed heartbeat is tried again: waiting a whole period would lose the lock in an outage shorter
// than the lock.
const heartbeatRetry = time.Second

// Heartbeater extends the locks of the runs that outlast their first lock: all of them in one statement every third of a lock. It
// cancels a run whose lock was lost, or is over on this process's own clock.
type Heartbeater struct {
	worker  [16]byte
	store   Store
	ttl     time.Duration
	logger  *slog.Logger
	metrics *Metrics
	pulse   *Pulse
	loops   *loop.Runner

	mu    sync.Mutex
	locks map[[16]byte]*Lock // by run
	some  chan struct{}      // told when there are locks where none were
}

// NewHeartbeater returns a heartbeater for the locks of one worker.
func NewHeartbeater(
	worker [16]byte, store Store, ttl time.Duration, logger *slog.Logger, metrics *Metrics, loops *loop.Runner,
) *Heartbeater {
	return &Heartbeater{
		worker: worker, store: store, ttl: ttl, logger: logger, metrics: metrics, pulse: NewPulse(logger), loops: loops,
		locks: map[[16]byte]*Lock{}, some: make(chan struct{}, 1),
	}
}

// Pulse returns the pulse of the worker whose locks these are. Whoever gives other signs of life tells it how they went.
func (h *Heartbeater) Pulse() *Pulse { return h.pulse }

// Hold begins to extend a lock.
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

// Drop forgets the lock of a run that is over.
func (h *Heartbeater) Drop(run [16]byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.locks, run)
}

// Until returns until when the lock of a run is good on this process's clock, as far as it was extended. held is false where it never is, or is
// gone.
func (h *Heartbeater) Until(run [16]byte) (ends time.Time, held bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l, held := h.locks[run]
	if !held {
		return time.Time{}, false
	}
	return l.ends, true
}

// Run extends locks until ctx ends, which should be after the last run has finished.
func (h *Heartbeater) Run(ctx context.Context) {
	period := h.ttl / 3
	timer := time.NewTimer(period)
	defer timer.Stop()
	often := min(heartbeatRetry/2, period)
	watch := time.NewTimer(often) // Locks must be seen to end also while a heartbeat hangs or waits.
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
				h.pulse.Beat(SignOfRuns, err)
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

// Lag returns how long ago the lock was granted or extended that is furthest behind: below a third of a lock and a moment where all
// is well, zero where no run needs heartbeats.
func (h *Heartbeater) Lag() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	var lag time.Duration
	for _, l := range h.locks {
		lag = max(lag, h.ttl-lockMargin-time.Until(l.ends))
	}
	return lag
}

// beat extends every lock in one statement and cancels the runs whose lock did not come back.
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

func (h *Heartbeater) held() []Held {
	h.mu.Lock()
	defer h.mu.Unlock()
	held := make([]Held, 0, len(h.locks))
	for _, l := range h.locks {
		held = append(held, l.Held)
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

// settle takes in which of the locks asked for were extended, and which are over on the database's clock alone, as after a step of it.
func (h *Heartbeater) settle(asked []Held, kept, over map[[16]byte]bool, sent time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range asked {
		l, live := h.locks[a.RunID]
		switch {
		case !live: // finished meanwhile
		case kept[a.RunID]:
			l.extend(sent, h.ttl)
		case over[a.RunID]: // Nobody else knows that the request ends now.
			h.lose(l, ErrLockOver)
		default:
			h.lose(l, ErrLockLost)
		}
	}
}

// endOver cancels the runs whose locks are over on this process's clock, and reports whether any are left.
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
