package courier

import (
	"context"
	"errors"
	"sync"
	"time"

	"rubato/internal/notices"
)

// inFlight is what is on its way to receivers.
type inFlight struct {
	sends sync.WaitGroup
	ended chan struct{} // told when a notice has been handled

	mu      sync.Mutex
	all     int
	rules   map[[16]byte]int
	tenants map[[16]byte]int
	faults  []error // of what was handled since they were asked for
}

func newInFlight() *inFlight {
	return &inFlight{ended: make(chan struct{}, 1), rules: map[[16]byte]int{}, tenants: map[[16]byte]int{}}
}

// room returns how much more can be sent.
func (f *inFlight) room() notices.Capacity {
	f.mu.Lock()
	defer f.mu.Unlock()
	return notices.Capacity{
		Limit: slots - f.all, PerRule: ruleFull, PerTenant: tenantFull, FullRules: full(f.rules, ruleFull), FullTenants: full(f.tenants, tenantFull),
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

// begin counts a notice that is on its way.
func (f *inFlight) begin(p *notices.Delivery) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all++
	f.rules[p.RuleID]++
	f.tenants[p.TenantID]++
}

// end counts it no longer.
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
	default: // It has been told.
	}
}

func drop(counts map[[16]byte]int, id [16]byte) {
	if counts[id]--; counts[id] == 0 {
		delete(counts, id)
	}
}

// fault returns what went wrong since it was last asked.
func (f *inFlight) fault() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	faults := f.faults
	f.faults = nil
	return errors.Join(faults...)
}

// await waits for a moment in which there may be more to send or more room. It reports whether anything is on its way.
func (f *inFlight) await(ctx context.Context) bool {
	f.mu.Lock()
	idle := f.all == 0
	f.mu.Unlock()
	if idle || !pause(ctx, claimPause, nil) {
		return false
	}
	return pause(ctx, claimPeriod, f.ended)
}

// pause waits for a time, or less where it is told. It reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration, told <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-told:
	case <-timer.C:
	}
	return true
}
