package dispatch

import (
	"context"
	"maps"
	"time"

	"rubato/internal/claims"
	"rubato/internal/failpoint"
	"rubato/internal/loop"
)

const (
	// queueFactor bounds the claims that wait, in slots: a slot serves several short runs within the horizon, but a worker
	// must not hoard what others could start.
	queueFactor = 4
	// overdueLimit is how long an overdue claim may have waited here before the worker takes no more: what it holds already is
	// all that it can start soon, and others may have free slots.
	overdueLimit = 250 * time.Millisecond
	// refillShare is which part of the queue must be free before the worker asks for more between its polls: a claim costs the database
	// about as much for one endpoint as for fifty. The rest lasts until the claim is back.
	refillShare = 4
	// refillMost is room enough in any case: more does not fit one claim.
	refillMost = 500
	// hoardLimit is how long a tenant or a host may be kept from slots by slow targets before its overdue claims are given back for others
	// to take.
	hoardLimit = 2 * time.Second
	// parkedRest is how long nobody claims what was given back because its host is busy, however far ahead claims look.
	parkedRest = 5 * time.Second
)

// Room returns how many claims the worker can take now, whoever's they are, and how far ahead. It implements claims.Taker.
func (w *Worker) Room() (limit int, horizon time.Duration) {
	if w.beats.Pulse().Err() != nil || w.full() {
		return 0, 0 // Slow targets hold all slots, or nobody hears of this worker: what is claimed now would only wait.
	}
	now, known := w.clock.now()
	if known && w.queue.Overloaded(now, overdueLimit) {
		return 0, 0
	}
	slots, size := w.queue.Slots(), w.queue.Len()
	if room := slots*queueFactor - size - w.backlog.waiting(); room > 0 && int64(size) < w.share.Load() {
		return room, w.cfg.Rules.Horizon
	}
	// The queue is full, or holds the worker's share: claim only due items that sort before the queued ones, for slots that no queued claim needs.
	return max(slots-w.queue.Busy()-w.queue.WaitingForSlot(now), 0), 0
}

// Share returns of which tenants the worker can take more although it has no room for whatever is due next, and how many of each: what is
// here of others may wait long. It implements claims.Taker.
func (w *Worker) Share(due [][16]byte) (wanted [][16]byte, each int) {
	if w.beats.Pulse().Err() != nil || w.full() {
		return nil, 0
	}
	each = max(2, 2*w.queue.Slots())
	return w.queue.Wanted(due, each, overdueLimit), each
}

// full reports whether all slots have been taken for a while.
func (w *Worker) full() bool {
	return w.queue.Busy() >= w.queue.Slots() && w.clock.age(w.lastFree.Load()) > overdueLimit
}

// refill asks for more where the last claim left something behind and that is worth a claim.
func (w *Worker) refill() {
	if horizon, worth := w.worthRefill(); worth {
		w.claimer.Refill(horizon)
	}
}

// worthRefill reports whether there is room for a claim that is worth its cost, or none, when it may be another tenant's turn, and how far
// ahead.
func (w *Worker) worthRefill() (horizon time.Duration, worth bool) {
	room, horizon := w.Room()
	return horizon, room <= 0 || room >= max(1, min(w.queue.Slots()*queueFactor/refillShare, refillMost))
}

// Take puts claims into the queue. It implements claims.Taker.
func (w *Worker) Take(list []claims.Claim, now, sent time.Time) {
	w.clock.sample(now, sent, time.Now())
	w.lastSeen.Store(w.clock.mark())
	w.starts.lapse()
	w.records.lapse()
	w.metrics.skew.Set(w.clock.skew().Seconds())
	if len(list) == 0 {
		return
	}
	failpoint.Hit(failpoint.Claimed)
	if w.draining.Load() {
		w.backlog.read(list) // They are given back with the others.
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), recordGrace)
	defer cancel()
	w.enqueue(ctx, list)
}

// enqueue looks up what claims call and puts them into the queue. A claim whose target is gone is given back; while targets cannot be
// read the claims are kept, as long as they hold.
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
			waits = append(waits, newWaiting(c, target, time.Now().Add(max(0, w.clock.until(c.PlannedAt)))))
		} else {
			lost = append(lost, c) // Edited or archived since: its token is void already.
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

// targets returns what claims call. If reading that panics, each claim is read alone, so that a poisoned
// one hurts no other: it is given back, and rests before it is claimed again.
func (w *Worker) targets(ctx context.Context, list []claims.Claim) (found map[[16]byte]*Target, poisoned map[[16]byte]bool, err error) {
	read := func(list []claims.Claim) (found map[[16]byte]*Target, err, fault error) {
		fault = w.loops.Contain(loop.Claim, func() { found, err = w.cfg.Executions.Targets(ctx, list) })
		return found, err, fault
	}
	found, err, fault := read(list)
	if fault == nil {
		return found, nil, err
	}
	found, poisoned = map[[16]byte]*Target{}, map[[16]byte]bool{}
	for i := range list {
		one, failed, fault := read(list[i : i+1])
		switch {
		case fault != nil:
			resting := list[i]
			resting.Rest = w.cfg.Rules.Horizon + poisonedRest
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

// keep returns which next due times may stay with this worker: as many as its queue has room for up to half of its bound and up to the worker's
// share, and none while the worker drains or its heartbeats fail.
func (w *Worker) keep() Keep {
	room := min(int64(w.queue.Slots()*queueFactor/2), w.share.Load()) - int64(w.queue.Len())
	if room <= 0 || w.draining.Load() || w.beats.Pulse().Err() != nil {
		return Keep{}
	}
	return Keep{Within: w.cfg.Rules.Horizon, Most: int(room)}
}
