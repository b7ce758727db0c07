package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"rubato/internal/dispatch/ready"
	"rubato/internal/egress"
	"rubato/internal/hosts"
	"rubato/internal/runs"
)

// BreakerStore is the database of the circuit breakers of hosts. Every method is one transaction.
type BreakerStore interface {
	// Changed returns the breakers that changed since an instant of the database's clock, or all of
	// them, and the database's time.
	Changed(ctx context.Context, since time.Time) (list []hosts.Breaker, now time.Time, err error)
	// Report merges the outcomes of a worker, and returns the breakers of the reports, and how many
	// of them opened.
	Report(ctx context.Context, reports []hosts.Report) (list []hosts.Breaker, opened int, err error)
	// Admit returns which claims may be sent as probes, and the breakers of their hosts.
	Admit(ctx context.Context, asked []hosts.Probing) (admitted []bool, list []hosts.Breaker, err error)
	// DropIdle deletes breakers that have been closed for a day, without failures and settings.
	DropIdle(ctx context.Context) error
}

const (
	// breakerPoll bounds the age of a worker's copy of the breakers. Notifications refresh it at
	// once; the poll is for lost ones.
	breakerPoll = time.Second
	// breakerPause is the shortest time between two reports, so that the outcomes of a failing host
	// share a transaction.
	breakerPause = 20 * time.Millisecond
	// breakerWait is the timeout of a transaction.
	breakerWait = 3 * time.Second
	// breakerRead is the shortest time between two reads of the changed breakers, because every
	// window of a dead host changes its breaker several times.
	breakerRead = 200 * time.Millisecond
	// breakerReload is the time after which all breakers are read again, to forget the deleted ones.
	breakerReload = time.Minute
)

// breakers is a worker's view of the circuit breakers of hosts.
type breakers struct {
	store BreakerStore // nil: no host is guarded
	// shared is set if all tenants share the breakers.
	shared bool
	book   hosts.Book
	tally  hosts.Tally
	gauges gauges
	// hosts gets the worker's share of the limits; nil: there is none.
	hosts *ready.Hosts
	clock *clock
	trips prometheus.Counter
	index atomic.Pointer[hosts.Member]
	// changed wakes the loop. It has a buffer of one, so that a signal never blocks.
	changed chan struct{}

	// mu guards bounded, the hosts with a limit, and orders the calls of bind. It guards the fields
	// up to nextSeats too.
	mu      sync.Mutex
	bounded map[hosts.Key]bool
	// probes gathers outcomes of probes; nil: none waits.
	probes *probeReports
	// nextSeats is when the next request for seats may be sent.
	nextSeats time.Time

	// The rest belongs to the loop: the instant of the last read by the database's clock, and the
	// instants of the last read and of the last one of all breakers by that of the process.
	since, read, reloaded time.Time
}

func newBreakers(cfg Config, c *clock, trips prometheus.Counter) *breakers {
	return &breakers{
		store:   cfg.Breakers,
		shared:  cfg.SharedHosts,
		hosts:   cfg.Hosts,
		clock:   c,
		trips:   trips,
		bounded: map[hosts.Key]bool{},
		changed: make(chan struct{}, 1),
	}
}

// wake makes the loop report and refresh. It never blocks.
func (b *breakers) wake() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// key returns the key of a host for a tenant.
func (b *breakers) key(tenant [16]byte, host string) hosts.Key {
	if b.shared {
		tenant = [16]byte{}
	}
	return hosts.Key{Scope: tenant, Host: host}
}

// keyOf returns the key of a claim's host.
func (b *breakers) keyOf(c *waiting) hosts.Key { return b.key(c.target.TenantID, c.target.Host) }

// report stores outcomes and learns the breakers of their hosts. After an error no outcome is lost.
func (b *breakers) report(ctx context.Context, outcomes []hosts.Report) error {
	list, opened, err := b.store.Report(ctx, outcomes)
	if err != nil {
		b.tally.PutBack(outcomes)
		return err
	}
	b.trips.Add(float64(opened))
	b.put(list)
	return nil
}

// of returns the breaker of a claim's host, and false if the host is not guarded: the endpoint
// opted out, or a template provides the host.
func (b *breakers) of(c *waiting) (hosts.Breaker, bool) {
	if b.store == nil || c.target.Host == "" || !c.target.Spec.Breaker {
		return hosts.Breaker{}, false
	}
	return b.book.Get(b.keyOf(c)), true
}

// HostsChanged refreshes the worker's copy of the breakers. It never blocks.
func (w *Worker) HostsChanged() { w.breakers.wake() }

// breakerLoop reports outcomes and refreshes the copy of the breakers until ctx ends.
func (w *Worker) breakerLoop(ctx context.Context, read func() loadSample) {
	if w.breakers.store == nil {
		return
	}
	ticker := time.NewTicker(breakerPoll)
	defer ticker.Stop()
	for {
		err := w.syncBreakers(ctx, func() bool { return w.trusted(read()) })
		if ctx.Err() != nil {
			return
		}
		if w.breakerFaults.record(err) {
			w.logger.Warn("sync breakers of hosts failed; the last known ones stay in force", "error", err)
		}
		sleep(ctx, breakerPause)
		select {
		case <-ctx.Done():
			return
		case <-w.breakers.changed:
		case <-ticker.C:
		}
	}
}

// loadForLimits returns the sampler of the process's load.
func (w *Worker) loadForLimits() func() loadSample {
	if w.cfg.load != nil {
		return w.cfg.load
	}
	return newLoadSampler().read
}

// trusted reports whether the latency of answers may limit a host: the operator allows it, and the
// process schedules its goroutines in time.
func (w *Worker) trusted(s loadSample) bool { return w.cfg.LatencyLimits && s.calm() }

// syncBreakers stores the outcomes since the last call, and reads the breakers that changed. After
// an error no outcome is lost.
func (w *Worker) syncBreakers(ctx context.Context, trusted func() bool) error {
	b := w.breakers
	ctx, cancel := context.WithTimeout(ctx, breakerWait)
	defer cancel()
	if reports := b.sample(b.tally.Take(), trusted); len(reports) > 0 {
		if err := b.report(ctx, reports); err != nil {
			return err
		}
	}
	if rest := breakerRead - time.Since(b.read); rest > 0 {
		time.AfterFunc(rest, b.wake)
		return nil
	}
	return b.refresh(ctx)
}

// refresh reads the breakers that changed since the last read, and once a minute all of them.
func (b *breakers) refresh(ctx context.Context) error {
	since, began := b.since, time.Now()
	if time.Since(b.reloaded) >= breakerReload {
		since = time.Time{}
	}
	list, now, err := b.store.Changed(ctx, since)
	if err != nil {
		return err
	}
	b.put(list)
	if since.IsZero() {
		b.keep(list)
		if err := b.store.DropIdle(ctx); err != nil {
			return err
		}
		b.reloaded = began
	}
	b.since, b.read = now, began
	return nil
}

// judgeHost counts the outcome of a run for the breaker of its host. After a redirect that is the
// host of the last request.
func (w *Worker) judgeHost(ctx context.Context, c *waiting, o runs.Outcome) {
	b := w.breakers
	if _, guarded := b.of(c); !guarded {
		return
	}
	verdict := hostVerdict(o)
	if c.probe {
		w.settleProbe(ctx, c, verdict, o.RetryAfter)
		return
	}
	key := b.key(c.target.TenantID, cmp.Or(c.last, c.target.Host))
	outcome := hosts.Outcome{
		Verdict:    verdict,
		RetryAfter: o.RetryAfter,
		Endpoint:   c.claim.Endpoint(),
	}
	if b.tally.Add(key, outcome, b.book.Get(key)) {
		b.wake()
	}
}

// hostVerdict maps the outcome of a run to that of its host. An answer below 500 shows that the
// host works, even if the run failed. So does a server error that the endpoint's rules accept.
func hostVerdict(o runs.Outcome) hosts.Verdict {
	if egress.Reason(o.Reason).OfTarget() { // The reasons of calls are those of runs.
		return hosts.Failure
	}
	switch o.Reason {
	case runs.HTTPStatus:
		if o.Status == runs.Failed && o.StatusCode >= 500 {
			return hosts.Failure
		}
		return hosts.Success
	case runs.SuccessRuleFailed, runs.NotModified, runs.ResponseTooLarge, runs.RedirectLimit:
		return hosts.Success
	default:
		return hosts.Neutral
	}
}

// circuitOpen returns the outcome of a run whose host is not to be called now; nil: the request is
// sent.
func (w *Worker) circuitOpen(c *waiting) *runs.Outcome {
	b, guarded := w.breakers.of(c)
	if !guarded || c.probe || b.State == hosts.Closed {
		return nil
	}
	now, _ := w.clock.now()
	return &runs.Outcome{
		Status:    runs.Skipped,
		Reason:    runs.CircuitOpen,
		OpenUntil: b.Back(c.claim.Endpoint(), now),
		Error: fmt.Sprintf("nothing was sent: the circuit of %s is open until %s, because its last requests failed",
			b.Host, b.OpenUntil.UTC().Format("15:04:05.999Z")),
	}
}
