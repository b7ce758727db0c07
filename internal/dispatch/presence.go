package dispatch

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"rubato/internal/claims"
)

// presencePeriod is how often a worker tells that it lives, jittered by a tenth. Others take over what it never started after three
// times as long.
const presencePeriod = 2 * time.Second

// State is what a worker says of itself.
type State string

// The states of a worker, in their order.
const (
	Active   State = "active"
	Draining State = "draining" // it claims nothing and ends what it has
	Inactive State = "inactive" // it has said goodbye
)

// presenceLoop stamps the worker's row until ctx ends.
func (w *Worker) presenceLoop(ctx context.Context) {
	next := time.NewTimer(untilPresence())
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		next.Reset(untilPresence()) // From here: a database that is slow to answer does not delay the next one.
		state := Active
		if w.draining.Load() {
			state = Draining
		}
		limited, cancel := context.WithTimeout(ctx, presencePeriod)
		err := w.announce(limited, state)
		if err == nil || ctx.Err() == nil {
			w.beats.Pulse().Beat(claims.SignOfWorker, err)
			if w.signs.note(err) {
				w.logger.Warn("telling that the worker lives failed", "error", err)
			}
		}
		if err == nil {
			w.learnShare(limited)
		}
		cancel()
	}
}

const (
	// spacePeriod is how often a worker probes the disk of the database for room. A worker that starts and records runs would notice by
	// itself, and one without due endpoints must not be called ready meanwhile.
	spacePeriod = 10 * time.Second
	// spaceRetry is how soon a failed probe is repeated, so that one slow answer makes no worker unready.
	spaceRetry = time.Second
	// spaceWait bounds a probe, which takes milliseconds.
	spaceWait = 5 * time.Second
)

// spaceLoop probes the disk of the database for room until ctx ends.
func (w *Worker) spaceLoop(ctx context.Context) {
	next := time.NewTimer(untilPresence()) // Workers that are rolled out together do not probe together.
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
		if w.space.note(err) {
			w.logger.Warn("probing the disk of the database for room failed", "error", err)
		}
		if err != nil {
			next.Reset(spaceRetry)
		} else {
			next.Reset(spacePeriod)
		}
	}
}

// untilPresence spreads what workers tell of themselves, which would otherwise all be said, and of slots be counted, at the instants of
// intervals that are as long.
func untilPresence() time.Duration {
	const tenth = presencePeriod / 10
	return presencePeriod - tenth + rand.N(2*tenth+1) //nolint:gosec // Spreading needs no secrecy.
}

func (w *Worker) announce(ctx context.Context, state State) error {
	return w.cfg.Executions.Beat(ctx, Presence{
		ID: w.id, Name: w.cfg.Name, Version: w.cfg.Version, State: state, Slots: w.queue.Slots(), Busy: w.queue.Busy(),
		MaxSlots: w.cfg.Slots, Queued: w.queue.Len(),
	})
}

// shareLeast is the number of claims that a worker may always keep, so that workers do not pass few endpoints around.
const shareLeast = 8

// learnShare sets how many claims the worker's queue may hold: its part of the claims in all queues, by configured slots, because the slots in
// use change with the load. Without a bound the first worker would keep every close due time, and a second worker would get none.
// If the query fails, the share stays as it is.
func (w *Worker) learnShare(ctx context.Context) {
	if fleet, err := w.cfg.Executions.Fleet(ctx); err == nil {
		w.share.Store(fleet.share(w.cfg.Slots))
	}
}

// share returns how many claims a worker may keep that has so many slots. It exceeds the fair share by a part that shrinks with the number
// of workers: if all but one of N equal workers hold their bound, the last one still gets three quarters of a fair share.
func (f Fleet) share(slots int) int64 {
	if f.Workers <= 1 || f.MaxSlots <= 0 {
		return math.MaxInt64
	}
	fair := float64(f.Queued) * float64(slots) / float64(f.MaxSlots)
	return max(shareLeast, int64(fair*(1+0.25/float64(f.Workers))))
}
