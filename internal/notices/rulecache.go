package notices

import "rubato/internal/endpoints"

// RuleCache is the rules in force and the episodes that runs may end, as a program remembers them. It never changes and is safe for concurrent
// use. A nil RuleCache holds nothing.
//
// It may be some seconds old. So it decides only whether the database is asked: there an episode is opened or closed by the rules as they
// are. What a book that is too old passes over is found by whoever looks after episodes.
type RuleCache struct {
	rules map[[16]byte]map[Event][]cover // by tenant
	open  map[open]bool
}

// cover is what a rule is about.
type cover struct {
	threshold int64
	scope     Scope
}

// open names the open episodes of an endpoint about an event.
type open struct {
	endpoint [16]byte
	event    Event
}

// NewRuleCache returns a book of rules.
func NewRuleCache(rules []Rule) *RuleCache {
	b := &RuleCache{rules: map[[16]byte]map[Event][]cover{}, open: map[open]bool{}}
	for _, r := range rules {
		if !r.Enabled {
			continue
		}
		of := b.rules[r.TenantID]
		if of == nil {
			of = map[Event][]cover{}
			b.rules[r.TenantID] = of
		}
		of[r.Event] = append(of[r.Event], cover{threshold: r.Threshold(), scope: r.Scope})
	}
	return b
}

// AddOpen notes that episodes about an event are open for an endpoint. It is for whoever fills the book.
func (b *RuleCache) AddOpen(endpoint [16]byte, event Event) { b.open[open{endpoint, event}] = true }

// Empty reports whether no rule is in force.
func (b *RuleCache) Empty() bool { return b == nil || len(b.rules) == 0 }

// About reports whether a tenant has a rule about anything.
func (b *RuleCache) About(tenant [16]byte) bool { return b != nil && b.rules[tenant] != nil }

// Opens reports whether some rule is about an endpoint at this size of an event, and was not at the size before.
func (b *RuleCache) Opens(e *endpoints.Endpoint, event Event, before, size int64) bool {
	if !b.About(e.TenantID) {
		return false
	}
	for _, c := range b.rules[e.TenantID][event] {
		if before < c.threshold && c.threshold <= size && c.scope.Covers(e.ID, e.Spec.Labels) {
			return true
		}
	}
	return false
}

// Open reports whether episodes about an event are known to be open for an endpoint.
func (b *RuleCache) Open(endpoint [16]byte, event Event) bool {
	return b != nil && b.open[open{endpoint, event}]
}
