package courier

import (
	"context"
	"errors"
	"sync"
	"time"

	"rubato/internal/notices"
)

// way is what is on its way to receivers.
type way struct {
	sends sync.WaitGroup
	ended chan struct{} // told when a notice has been handled

	mu      sync.Mutex
	all     int
	rules   map[[16]byte]int
	tenants map[[16]byte]int
	faults  []error // of what was handled since they were asked for
}

func newWay() *way {
	return &way{ended: make(chan struct{}, 1), rules: map[[16]byte]int{}, tenants: map[[16]byte]int{}}
}

// room returns how much more can be sent.
func (w *way) room() notices.Room {
	w.mu.Lock()
	defer w.mu.Unlock()
	return notices.Room{
		Limit: slots - w.all, PerRule: ruleFull, PerTenant: tenantFull, FullRules: full(w.rules, ruleFull), FullTenants: full(w.tenants, tenantFull),
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
func (w *way) begin(p *notices.Parcel) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all++
	w.rules[p.RuleID]++
	w.tenants[p.TenantID]++
}

// end counts it no longer.
func (w *way) end(p *notices.Parcel, err error) {
	w.mu.Lock()
	w.all--
	drop(w.rules, p.RuleID)
	drop(w.tenants, p.TenantID)
	if err != nil {
		w.faults = append(w.faults, err)
	}
	w.mu.Unlock()
	select {
	case w.ended <- struct{}{}:
	default: // It has been told.
	}
}

func drop(counts map[[16]byte]int, id [16]byte) {
	if counts[id]--; counts[id] == 0 {
		delete(counts, id)
	}
}

// fault returns what went wrong since it was last asked.
func (w *way) fault() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	faults := w.faults
	w.faults = nil
	return errors.Join(faults...)
}

// await waits for a moment in which there may be more to send or more room. It reports whether anything is on its way.
func (w *way) await(ctx context.Context) bool {
	w.mu.Lock()
	idle := w.all == 0
	w.mu.Unlock()
	if idle || !pause(ctx, claimPause, nil) {
		return false
	}
	return pause(ctx, claimPeriod, w.ended)
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
