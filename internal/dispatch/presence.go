package dispatch

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"rubato/internal/claims"
	"rubato/internal/hosts"
)

// presencePeriod is the period of the presence heartbeat, jittered by a tenth. After three periods
// without one, other workers take over the claims that this worker has not started.
const presencePeriod = 2 * time.Second

// State is the state in a worker's row.
type State string

// The states of a worker, in their order.
const (
	Active State = "active"
	// Draining is a worker that claims nothing more, and finishes its runs.
	Draining State = "draining"
	// Drained is a worker that holds neither claims nor runs by an operator's order to drain.
	Drained State = "drained"
	// Inactive is a worker that has ended.
	Inactive State = "inactive"
)

// presenceLoop writes the presence heartbeat to the worker's row until ctx ends.
func (w *Worker) presenceLoop(ctx context.Context) {
	next := time.NewTimer(untilPresence())
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.orders:
		case <-next.C:
		}
		state := w.state()
		// Reset before the write, so that a slow database does not delay the next heartbeat.
		next.Reset(w.untilPresence(state))
		limited, cancel := context.WithTimeout(ctx, presencePeriod)
		drain, err := w.announce(limited, state)
		if err == nil || ctx.Err() == nil {
			w.beats.Gate().Beat(claims.PresenceHeartbeat, err)
			if w.signs.record(err) {
				w.logger.Warn("worker heartbeat failed", "error", err)
			}
		}
		if err == nil {
			w.learnFleet(limited)
			if w.follow(ctx, drain) {
				next.Reset(0)
			}
		}
		cancel()
	}
}

const (
	// spacePeriod is how often a worker probes for free space on the database's disk. A busy worker
	// notices a full disk when its writes fail. Only the probe makes an idle worker unready.
	spacePeriod = 10 * time.Second
	// spaceRetry is the delay before a failed probe is repeated. It is short, so that one slow
	// answer does not make the worker unready.
	spaceRetry = time.Second
	// spaceWait is the timeout of a probe. A probe normally takes milliseconds.
	spaceWait = 5 * time.Second
)

// spaceLoop probes for free space on the database's disk until ctx ends.
func (w *Worker) spaceLoop(ctx context.Context) {
	// Jittered, because workers that are rolled out together should not probe together.
	next := time.NewTimer(untilPresence())
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		limited, cancel := context.WithTimeout(ctx, spaceWait)
		err := w.cfg.Executions.ProbeSpace(limited)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if w.space.record(err) {
			w.logger.Warn("probe database disk space failed", "error", err)
		}
		if err != nil {
			next.Reset(spaceRetry)
		} else {
			next.Reset(spacePeriod)
		}
	}
}

// untilPresence returns the jittered delay until the next heartbeat. Without the jitter all workers
// would write at once, and always count their slots at the same instant of an endpoint's interval.
func untilPresence() time.Duration {
	const tenth = presencePeriod / 10
	return presencePeriod - tenth + rand.N(2*tenth+1) //nolint:gosec // Jitter needs no secrecy.
}

func (w *Worker) announce(ctx context.Context, state State) (drain bool, err error) {
	return w.cfg.Executions.Beat(ctx, Presence{
		ID:        w.id,
		Name:      w.cfg.Name,
		Version:   w.cfg.Version,
		State:     state,
		Slots:     w.queue.Slots(),
		Busy:      w.queue.Busy(),
		MaxSlots:  w.cfg.Slots,
		Queued:    w.queue.Len(),
		Placement: w.cfg.Placement,
	})
}

// shareLeast is the number of claims that a worker may always keep, so that a small number of
// endpoints does not move between workers all the time.
const shareLeast = 8

// learnFleet sets the quota of claims that the worker's queue may hold, and the tag sets that it
// serves. The quota is its part of the claims in all queues, in proportion to configured slots,
// because the slots in use change with the load. Without a quota the first worker would keep every
// close due time, and a second worker would get none. If the query fails, both stay as they are.
func (w *Worker) learnFleet(ctx context.Context) {
	fleet, err := w.cfg.Executions.Fleet(ctx, w.id)
	if err != nil {
		return
	}
	w.breakers.join(hosts.Member{
		Index:   fleet.Index,
		Workers: fleet.Workers,
	})
	w.share.Store(fleet.share(w.cfg.Slots))
	fleet.TagSets.Exclusive = w.cfg.Placement.Exclusive
	if before := w.tagSets.Swap(&fleet.TagSets); !before.Equal(fleet.TagSets) {
		w.claimer.Wake()
	}
}

// TagSets returns the tag sets that the worker serves. It implements claims.Taker.
func (w *Worker) TagSets() claims.TagSets { return *w.tagSets.Load() }

// share returns the quota of claims of a worker with this number of slots. The quota exceeds the
// fair share by a part that shrinks with the number of workers: if all but one of N equal workers
// use theirs up, the last one still gets three quarters of a fair share.
func (f Fleet) share(slots int) int64 {
	if f.Workers <= 1 || f.MaxSlots <= 0 {
		return math.MaxInt64
	}
	fair := float64(f.Queued) * float64(slots) / float64(f.MaxSlots)
	return max(shareLeast, int64(fair*(1+0.25/float64(f.Workers))))
}
