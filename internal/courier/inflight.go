package courier

import (
	"context"
	"errors"
	"sync"
	"time"

	"rubato/internal/notices"
)

// inFlight counts the notices that are being sent, in total, per rule and per tenant. It is safe
// for concurrent use.
type inFlight struct {
	sends sync.WaitGroup
	// ended has one buffered signal that a notice was handled.
	ended chan struct{}

	mu      sync.Mutex // guards the fields below
	all     int
	rules   map[[16]byte]int
	tenants map[[16]byte]int
	// faults holds the errors since the last call of fault.
	faults []error
}

func newInFlight() *inFlight {
	return &inFlight{
		ended:   make(chan struct{}, 1),
		rules:   map[[16]byte]int{},
		tenants: map[[16]byte]int{},
	}
}

// room returns the capacity for more notices.
func (f *inFlight) room() notices.Capacity {
	f.mu.Lock()
	defer f.mu.Unlock()
	return notices.Capacity{
		Limit:       slots - f.all,
		PerRule:     ruleFull,
		PerTenant:   tenantFull,
		FullRules:   full(f.rules, ruleFull),
		FullTenants: full(f.tenants, tenantFull),
	}
}

func full(counts map[[16]byte]int, limit int) (ids [][16]byte) {
	for id, n := range counts {
		if n >= limit {
			ids = append(ids, id)
		}
	}
	return ids
}

// begin counts a notice in.
func (f *inFlight) begin(p *notices.Delivery) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all++
	f.rules[p.RuleID]++
	f.tenants[p.TenantID]++
}

// end counts a notice out, and signals that capacity was freed.
func (f *inFlight) end(p *notices.Delivery, err error) {
	f.mu.Lock()
	f.all--
	drop(f.rules, p.RuleID)
	drop(f.tenants, p.TenantID)
	if err != nil {
		f.faults = append(f.faults, err)
	}
	f.mu.Unlock()
	select {
	case f.ended <- struct{}{}:
	default: // A signal is pending already.
	}
}

func drop(counts map[[16]byte]int, id [16]byte) {
	if counts[id]--; counts[id] == 0 {
		delete(counts, id)
	}
}

// fault returns the errors of notices since its last call, joined.
func (f *inFlight) fault() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	faults := f.faults
	f.faults = nil
	return errors.Join(faults...)
}

// await waits until a notice has ended, at most claimPeriod, so that another claim is worthwhile.
// It returns false if no notice is in flight or ctx has ended.
func (f *inFlight) await(ctx context.Context) bool {
	f.mu.Lock()
	idle := f.all == 0
	f.mu.Unlock()
	if idle || !pause(ctx, claimPause, nil) {
		return false
	}
	return pause(ctx, claimPeriod, f.ended)
}

// pause waits for a duration or a signal. It returns false if ctx has ended.
func pause(ctx context.Context, d time.Duration, signal <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-signal:
	case <-timer.C:
	}
	return true
}
