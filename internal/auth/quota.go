package auth

import "sync"

// QuotaLimits are the bounds of a [Quota].
type QuotaLimits struct {
	PerTenant int // of one tenant
	All       int // of all tenants together
	// Reserved is how many of its own a tenant may open while more than half of All are open. So
	// tenants that were first cannot take the second half from those that come later: All / 2 /
	// Reserved further tenants get that many each.
	Reserved int
}

// Quota bounds how many requests of a kind are open at once, for one tenant and for all of them. It
// is safe for concurrent use. Use NewQuota.
type Quota struct {
	limits QuotaLimits

	mu      sync.Mutex
	tenants map[[16]byte]int
	open    int
}

// NewQuota returns an unused quota.
func NewQuota(limits QuotaLimits) *Quota { return &Quota{limits: limits, tenants: map[[16]byte]int{}} }

// Acquire takes one unit for a tenant. If ok is false, the quota is exhausted; otherwise release
// must be called once.
func (q *Quota) Acquire(tenant [16]byte) (release func(), ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	limit := q.limits.PerTenant
	if q.open >= q.limits.All/2 {
		limit = q.limits.Reserved
	}
	if q.open >= q.limits.All || q.tenants[tenant] >= limit {
		return nil, false
	}
	q.open++
	q.tenants[tenant]++
	return func() { q.release(tenant) }, true
}

func (q *Quota) release(tenant [16]byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open--
	if q.tenants[tenant]--; q.tenants[tenant] == 0 {
		delete(q.tenants, tenant) // Tenants come and go.
	}
}
