package dispatch

import (
	"context"
	"maps"
	"time"

	"rubato/internal/claims"
	"rubato/internal/dispatch/request"
	"rubato/internal/failpoint"
	"rubato/internal/loop"
)

const (
	// queueFactor bounds the queue, in claims per slot. A slot serves several short runs within the
	// horizon, but a worker must not hoard claims that other workers could start.
	queueFactor = 4
	// overdueLimit is how long an overdue claim may wait in the queue before the worker claims no
	// more. The worker can start no more than it already holds, and other workers may have free
	// slots.
	overdueLimit = 250 * time.Millisecond
	// refillShare is the part of the queue, a quarter, that must be free before the worker claims
	// between polls, because one endpoint costs the database about as much as fifty. The rest of
	// the queue lasts until that claim returns.
	refillShare = 4
	// refillMost is enough room for a refill in any case, because one claim takes no more.
	refillMost = 500
	// hoardLimit is how long slow targets may keep a tenant or a host from slots. Then its overdue
	// claims are released for other workers.
	hoardLimit = 2 * time.Second
)

// Room returns the number of claims of any tenant that the worker can take now, and their horizon.
// It implements claims.Taker. It is safe for concurrent use, because the claimer and the starter
// call it.
func (w *Worker) Room() (limit int, horizon time.Duration) {
	if w.leaving() || w.beats.Gate().Err() != nil || w.full() {
		// Slow targets hold all slots, or heartbeats fail, therefore new claims would only wait.
		return 0, 0
	}
	now, known := w.clock.now()
	if known && w.queue.Overloaded(now, overdueLimit) {
		return 0, 0
	}
	slots, size := w.queue.Slots(), w.queue.Len()
	if room := slots*queueFactor - size - w.backlog.waiting(); room > 0 && int64(size) < w.share.Load() {
		return room, w.cfg.Rules.Horizon
	}
	// The queue is full or holds the worker's share. Claim only due endpoints, which sort before
	// the queued ones, for slots that no queued claim needs.
	return max(slots-w.queue.Busy()-w.queue.WaitingForSlot(now), 0), 0
}

// Share returns the tenants below their fair share when the queue is full, and the quota of each. A
// full queue does not exclude them, because the queued claims of other tenants may wait long. It
// implements claims.Taker.
func (w *Worker) Share(due [][16]byte) (wanted [][16]byte, each int) {
	if w.leaving() || w.beats.Gate().Err() != nil || w.full() {
		return nil, 0
	}
	each = max(2, 2*w.queue.Slots())
	return w.queue.Wanted(due, each, overdueLimit), each
}

// full reports whether all slots have been busy for longer than overdueLimit.
func (w *Worker) full() bool {
	return w.queue.Busy() >= w.queue.Slots() && w.clock.age(w.lastFree.Load()) > overdueLimit
}

// refill asks for another claim if the last one left endpoints behind and the room is worth its
// cost.
func (w *Worker) refill() {
	if horizon, worth := w.worthRefill(); worth {
		w.claimer.Refill(horizon)
	}
}

// worthRefill reports whether the room is worth the cost of a claim, and returns the horizon. No
// room is worth it, too, because another tenant may be below its fair share.
func (w *Worker) worthRefill() (horizon time.Duration, worth bool) {
	room, horizon := w.Room()
	return horizon, room <= 0 || room >= max(1, min(w.queue.Slots()*queueFactor/refillShare, refillMost))
}

// Take adds claims to the queue and samples the database's clock. It implements claims.Taker.
func (w *Worker) Take(list []claims.Claim, now, sent time.Time) {
	w.clock.sample(now, sent, time.Now())
	w.lastSeen.Store(w.clock.mark())
	w.starts.expire()
	w.records.expire()
	w.metrics.skew.Set(w.clock.skew().Seconds())
	if len(list) == 0 {
		return
	}
	failpoint.Hit(failpoint.Claimed)
	if w.draining.Load() {
		// The shutdown releases them with the rest of the backlog.
		w.backlog.read(list)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), recordGrace)
	defer cancel()
	if w.drainOrdered.Load() { // The claim was in flight when the order came.
		w.backlog.read(list)
		w.release(ctx)
		return
	}
	w.enqueue(ctx, list)
}

// enqueue reads the targets of claims and adds the claims to the queue. It releases claims without
// a target. If the targets cannot be read, the claims wait in the backlog until their locks expire.
func (w *Worker) enqueue(ctx context.Context, list []claims.Claim) {
	if len(list) == 0 {
		return
	}
	targets, poisoned, err := w.targets(ctx, list)
	waits := make([]*waiting, 0, len(list))
	var lost []claims.Claim
	for _, c := range list {
		if poisoned[c.EndpointID] {
			continue
		}
		if target, found := targets[c.EndpointID]; found {
			waits = append(waits, w.waitingFor(c, target))
		} else {
			// The endpoint was edited or archived, therefore the token is void.
			lost = append(lost, c)
		}
	}
	w.queue.Add(waits)
	if err != nil {
		w.logger.Warn("reading what to call failed; trying again while the claims hold", "claims", len(lost), "error", err)
		w.backlog.read(lost)
		return
	}
	w.giveBack(ctx, lost)
}

// waitingFor returns a claim for the queue. It comes due when it is planned, or when its host may
// be called again.
func (w *Worker) waitingFor(c claims.Claim, target *request.Target) *waiting {
	entry := newWaiting(c, target, time.Now().Add(max(0, w.clock.until(c.PlannedAt))))
	if now, known := w.clock.now(); known {
		if until := w.heldUntil(entry, now); until.After(c.PlannedAt) && until.Before(now.Add(w.cfg.Rules.Horizon)) {
			entry.PlannedAt, entry.Since = until, time.Now().Add(w.clock.until(until))
		}
	}
	return entry
}

// targets returns the targets of claims. If the read panics, each claim is read alone, so that a
// poisoned claim affects no other. A poisoned claim is released with a rest.
func (w *Worker) targets(ctx context.Context, list []claims.Claim) (found map[[16]byte]*request.Target, poisoned map[[16]byte]bool, err error) {
	read := func(list []claims.Claim) (found map[[16]byte]*request.Target, err, fault error) {
		fault = w.loops.Contain(loop.Claim, func() { found, err = w.cfg.Executions.Targets(ctx, list) })
		return found, err, fault
	}
	found, err, fault := read(list)
	if fault == nil {
		return found, nil, err
	}
	found, poisoned = map[[16]byte]*request.Target{}, map[[16]byte]bool{}
	for i := range list {
		one, failed, fault := read(list[i : i+1])
		switch {
		case fault != nil:
			resting := list[i]
			resting.ReleaseDelay = w.cfg.Rules.Horizon + poisonedRest
			poisoned[resting.EndpointID] = true
			w.giveBack(ctx, []claims.Claim{resting})
		case failed != nil:
			err = failed
		default:
			maps.Copy(found, one)
		}
	}
	return found, poisoned, err
}

func (w *Worker) giveBack(ctx context.Context, list []claims.Claim) {
	if len(list) == 0 {
		return
	}
	if _, err := w.cfg.Claims.Release(ctx, w.id, list); err != nil {
		w.logger.Warn("giving claims back failed; trying again while they hold", "claims", len(list), "error", err)
		w.backlog.giveBack(list)
	}
}

// keep returns the bounds of the next due times that stay claimed by this worker: room up to half
// of the queue's bound and up to the worker's share. It returns zero while the worker drains or its
// heartbeats fail.
func (w *Worker) keep() Keep {
	room := min(int64(w.queue.Slots()*queueFactor/2), w.share.Load()) - int64(w.queue.Len())
	if room <= 0 || w.leaving() || w.beats.Gate().Err() != nil {
		return Keep{}
	}
	return Keep{
		Within:  w.cfg.Rules.Horizon,
		Most:    int(room),
		TagSets: w.TagSets(),
	}
}
