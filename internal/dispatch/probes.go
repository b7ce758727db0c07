package dispatch

import (
	"context"
	"slices"
	"time"

	"rubato/internal/governor"
	"rubato/internal/hosts"
)

// probeHold is how long a claim waits at least before it looks again whether probes have decided
// about its host. A claim may wait up to twice as long, so that not all come at once.
const probeHold = time.Second

const (
	// seatGap is the shortest time between two requests for seats, so that the probes of many dead
	// hosts share a transaction. A forced run does not wait.
	seatGap = 250 * time.Millisecond
	// probeGather is how long the outcome of a probe waits for others, for the same reason.
	probeGather = 20 * time.Millisecond
)

// admission sorts a batch of claims by the breakers of their hosts.
type admission struct {
	// starts may start. Those of an open host are recorded as skipped instead of sent.
	starts []*waiting
	// probes may start if the database gives them a seat.
	probes []*waiting
	// rest are one-off runs of open hosts, which are released until the window ends.
	rest []*waiting
	// held wait until probes have decided about their host.
	held []*waiting
}

// startAdmitted starts a batch of claims as far as the breakers of their hosts permit. It returns
// false if a start has to be retried.
func (w *Worker) startAdmitted(ctx, work context.Context, batch []*waiting) bool {
	a := w.admit(batch)
	a.probes = w.postpone(a.probes)
	started := len(a.starts) == 0 || w.startBatch(ctx, work, a.starts)
	admitted, held := w.seat(ctx, a.probes)
	if len(admitted) > 0 {
		started = w.startBatch(ctx, work, admitted) && started
	}
	w.metrics.deferred.WithLabelValues(deferredOpen).Add(float64(len(a.rest)))
	rest := slices.Concat(a.rest, w.hold(slices.Concat(a.held, held)))
	if len(rest) > 0 {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startWait)
		defer cancel()
		started = w.withoutStart(ctx, rest) && started
	}
	return started
}

// postpone puts claims that need seats back into the queue until the next request for seats, and
// returns those that ask now.
func (w *Worker) postpone(list []*waiting) (now []*waiting) {
	if len(list) == 0 || slices.ContainsFunc(list, func(c *waiting) bool { return c.target.Force }) {
		return list
	}
	wait := w.breakers.seatWait()
	if wait <= 0 {
		return list
	}
	w.putBack(list, func(int) time.Duration { return wait })
	return nil
}

// putBack puts claims back into the queue, each for a time.
func (w *Worker) putBack(list []*waiting, wait func(i int) time.Duration) {
	now, _ := w.clock.now()
	for i, c := range list {
		c.PlannedAt, c.Since = now.Add(wait(i)), time.Now().Add(wait(i))
	}
	w.queue.PutBack(list)
}

// hold puts claims of half-open hosts back into the queue for a moment. If the queue is half full,
// hold returns them instead, to be released, so that they keep no room from claims of other hosts.
func (w *Worker) hold(list []*waiting) (rest []*waiting) {
	if len(list) == 0 {
		return nil
	}
	if w.queue.Len() > w.queue.Slots()*queueFactor/2 {
		for _, c := range list {
			c.claim.ReleaseDelay = w.cfg.Rules.Horizon + hostRest
		}
		return list
	}
	w.putBack(list, func(i int) time.Duration { return probeHold + probeHold*time.Duration(i)/time.Duration(len(list)) })
	return nil
}

// admit sorts a batch. One-off runs wait for an open host until their deadline. All other runs of
// an open host start, so that their due times are recorded as skipped.
func (w *Worker) admit(batch []*waiting) (a admission) {
	now, _ := w.clock.now()
	asked := map[hosts.Key]int{}
	for _, c := range batch {
		b, guarded := w.breakers.of(c)
		open := b.State == hosts.Open && now.Before(b.OpenUntil)
		switch {
		case !guarded || b.State == hosts.Closed || c.overdue(now):
			a.starts = append(a.starts, c)
		case c.target.Force:
			asked[b.Key]++
			a.probes = append(a.probes, c)
		case open && !c.manual():
			a.starts = append(a.starts, c)
		case open:
			c.claim.ReleaseDelay = max(w.heldUntil(c, now).Sub(now), 0)
			a.rest = append(a.rest, c)
		case asked[b.Key] > 0 && asked[b.Key]+len(b.Seats)+b.Successes >= hosts.MaxProbes:
			// One claim asks even if no seat seems free, because the database frees those of dead
			// probers only when it is asked.
			a.held = append(a.held, c)
		default:
			asked[b.Key]++
			a.probes = append(a.probes, c)
		}
	}
	return a
}

// seat asks the database which claims may be probes. Those without a seat are held.
func (w *Worker) seat(ctx context.Context, list []*waiting) (admitted, held []*waiting) {
	if len(list) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), breakerWait)
	defer cancel()
	asked := make([]hosts.Probing, len(list))
	for i, c := range list {
		asked[i] = hosts.Probing{
			Key:   w.breakers.keyOf(c),
			Seat:  c.seat(),
			Force: c.target.Force,
		}
	}
	seated, known, err := w.breakers.store.Admit(ctx, asked)
	if err != nil {
		w.logger.Warn("ask for probes of hosts failed; their claims wait", "claims", len(list), "error", err)
		seated = make([]bool, len(list))
	}
	w.breakers.put(known)
	for i, c := range list {
		if seated[i] {
			c.probe = true
			admitted = append(admitted, c)
			continue
		}
		held = append(held, c)
	}
	return admitted, held
}

// settleProbe reports the outcome of a probe while the run still holds its lock. Otherwise its seat
// would be free before its outcome is known, and another probe would follow a failed one.
// A shutdown does not keep it from its report.
func (w *Worker) settleProbe(ctx context.Context, c *waiting, v hosts.Verdict, retryAfter time.Time) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), breakerWait)
	defer cancel()
	w.breakers.settle(ctx, hosts.Report{
		Key:        w.breakers.keyOf(c),
		RetryAfter: retryAfter,
		Probes:     []hosts.Probe{{Seat: c.seat(), Verdict: v}},
	})
}

// probeReports are outcomes of probes that share a transaction.
type probeReports struct {
	list   []hosts.Report
	stored chan struct{} // closed after the transaction
}

// add adds an outcome. A host occurs once.
func (p *probeReports) add(r hosts.Report) {
	for i := range p.list {
		if known := &p.list[i]; known.Key == r.Key {
			known.Probes = append(known.Probes, r.Probes...)
			if r.RetryAfter.After(known.RetryAfter) {
				known.RetryAfter = r.RetryAfter
			}
			return
		}
	}
	p.list = append(p.list, r)
}

// settle stores the outcome of a probe together with those that come within probeGather. After an
// error the loop reports them again.
func (b *breakers) settle(ctx context.Context, r hosts.Report) {
	b.mu.Lock()
	first := b.probes == nil
	if first {
		b.probes = &probeReports{stored: make(chan struct{})}
	}
	group := b.probes
	group.add(r)
	b.mu.Unlock()
	if !first {
		<-group.stored
		return
	}
	defer close(group.stored)
	sleep(ctx, probeGather)
	b.mu.Lock()
	b.probes = nil
	b.mu.Unlock()
	if b.report(ctx, group.list) != nil {
		b.wake()
	}
}

// seatWait returns how long claims wait before they ask for seats. With zero they ask now, and
// later ones wait for seatGap.
func (b *breakers) seatWait() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if wait := time.Until(b.nextSeats); wait > 0 {
		return wait
	}
	b.nextSeats = time.Now().Add(seatGap)
	return 0
}

// heldUntil returns when a claim of a one-off run may start: the end of its host's window, or its
// deadline if that is earlier. It returns its due time if the host is not open.
func (w *Worker) heldUntil(c *waiting, now time.Time) time.Time {
	if !c.manual() || c.target.Force { // Nearly all claims, so that they need no look at the breakers.
		return c.claim.PlannedAt
	}
	b, guarded := w.breakers.of(c)
	if !guarded || b.State != hosts.Open || !now.Before(b.OpenUntil) {
		return c.claim.PlannedAt
	}
	until := b.Back(c.claim.Endpoint(), now)
	if end := c.target.Deadline; !end.IsZero() && end.Before(until) {
		until = end
	}
	return until
}

// seat returns the right of the claim to be a probe.
func (c *waiting) seat() hosts.Seat {
	return hosts.Seat{Endpoint: c.claim.EndpointID, Token: c.claim.Token}
}

// manual reports whether the claim is of a one-off run.
func (c *waiting) manual() bool { return c.claim.Source == string(governor.SourceManual) }

// overdue reports whether the deadline of a one-off run has passed.
func (c *waiting) overdue(now time.Time) bool {
	return !c.target.Deadline.IsZero() && !now.Before(c.target.Deadline)
}
