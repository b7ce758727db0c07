package notices

import "rubato/internal/endpoints"

// RuleCache is a snapshot of the enabled rules and of the open episodes that a run may close. It is
// immutable after it was filled, and safe for concurrent use. A nil RuleCache is empty.
//
// It may be some seconds stale. Therefore it only decides whether the database is asked; the
// database opens and closes episodes by its current rules. An event that a stale cache misses is
// found by the periodic watch of episodes.
type RuleCache struct {
	rules map[[16]byte]map[Event][]condition // by tenant
	open  map[open]bool
}

// condition is the part of a rule that decides whether it matches.
type condition struct {
	threshold int64
	scope     Scope
}

// open is the key of the open episodes of an endpoint about an event.
type open struct {
	endpoint [16]byte
	event    Event
}

// NewRuleCache returns a cache of the enabled rules.
func NewRuleCache(rules []Rule) *RuleCache {
	b := &RuleCache{rules: map[[16]byte]map[Event][]condition{}, open: map[open]bool{}}
	for _, r := range rules {
		if !r.Enabled {
			continue
		}
		of := b.rules[r.TenantID]
		if of == nil {
			of = map[Event][]condition{}
			b.rules[r.TenantID] = of
		}
		of[r.Event] = append(of[r.Event], condition{threshold: r.Threshold(), scope: r.Scope})
	}
	return b
}

// AddOpen records open episodes of an endpoint about an event. Call it only while the cache is
// filled, before it is shared.
func (b *RuleCache) AddOpen(endpoint [16]byte, event Event) { b.open[open{endpoint, event}] = true }

// Empty reports whether no rule is enabled.
func (b *RuleCache) Empty() bool { return b == nil || len(b.rules) == 0 }

// About reports whether a tenant has an enabled rule.
func (b *RuleCache) About(tenant [16]byte) bool { return b != nil && b.rules[tenant] != nil }

// Opens reports whether the event crosses the threshold of a matching rule: size reaches it, and
// before was below it.
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

// Open reports whether the cache holds open episodes of an endpoint about an event.
func (b *RuleCache) Open(endpoint [16]byte, event Event) bool {
	return b != nil && b.open[open{endpoint, event}]
}
