package spending

import (
	"maps"
	"slices"
	"sync"
)

// Key identifies a shared budget.
type Key struct {
	TenantID [16]byte
	Name     string
}

// Book holds all shared budgets for look-ups. It is immutable, and nil holds none.
type Book struct {
	tenants map[[16]byte]map[string]*Budget
}

// LabelName returns the name of the budget of a label.
func LabelName(label, value string) string { return labelPrefix + label + "=" + value }

// HostName returns the name of the budget of a host.
func HostName(host string) string { return hostPrefix + host }

// NewBook returns a book of budgets.
func NewBook(list []Budget) *Book {
	b := &Book{tenants: map[[16]byte]map[string]*Budget{}}
	for i := range list {
		of := b.tenants[list[i].TenantID]
		if of == nil {
			of = map[string]*Budget{}
			b.tenants[list[i].TenantID] = of
		}
		of[list[i].Name] = &list[i]
	}
	return b
}

// About reports whether a tenant has shared budgets.
func (b *Book) About(tenant [16]byte) bool { return b != nil && len(b.tenants[tenant]) > 0 }

// For returns the budget of an endpoint, or nil. The most specific one counts: that of a label,
// else that of the host, else that of the tenant. Of several labels the first by name counts.
func (b *Book) For(tenant [16]byte, host string, labels map[string]string) *Budget {
	if !b.About(tenant) {
		return nil
	}
	of := b.tenants[tenant]
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if found := of[LabelName(name, labels[name])]; found != nil {
			return found
		}
	}
	if found := of[HostName(host)]; found != nil {
		return found
	}
	return of[Tenant]
}

// Names returns the names of the budgets that may be an endpoint's.
func Names(host string, labels map[string]string) []string {
	names := append(make([]string, 0, 2+len(labels)), Tenant, HostName(host))
	for label, value := range labels {
		names = append(names, LabelName(label, value))
	}
	return names
}

// Counter counts runs by budget. The zero value is ready. It is safe for concurrent use.
type Counter struct {
	mu   sync.Mutex
	used map[Key]int64
}

// Add counts runs of a budget.
func (c *Counter) Add(k Key, runs int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.used == nil {
		c.used = map[Key]int64{}
	}
	c.used[k] += runs
}

// Take returns the counts since the last call and starts again from zero.
func (c *Counter) Take() map[Key]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	used := c.used
	c.used = nil
	return used
}

// PutBack adds counts that Take returned and that could not be stored.
func (c *Counter) PutBack(used map[Key]int64) {
	for k, runs := range used {
		c.Add(k, runs)
	}
}
