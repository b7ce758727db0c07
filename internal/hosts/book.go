package hosts

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// Book is a worker's copy of the breakers. It is safe for concurrent use.
type Book struct {
	mu      sync.RWMutex
	entries map[Key]Breaker
}

// Put replaces the breakers of a list.
func (b *Book) Put(list []Breaker) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.entries == nil {
		b.entries = map[Key]Breaker{}
	}
	for _, entry := range list {
		b.entries[entry.Key] = entry
	}
}

// Keep forgets all breakers that are not in a complete list.
func (b *Book) Keep(list []Breaker) {
	known := make(map[Key]bool, len(list))
	for _, entry := range list {
		known[entry.Key] = true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for key := range b.entries {
		if !known[key] {
			delete(b.entries, key)
		}
	}
}

// Get returns the breaker of a host. A host without one is closed.
func (b *Book) Get(key Key) Breaker {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if entry, found := b.entries[key]; found {
		return entry
	}
	return Breaker{Key: key, State: Closed}
}

// Tally counts the outcomes of a worker by host until they are reported. Its zero value is ready.
// It is safe for concurrent use.
type Tally struct {
	mu      sync.Mutex
	reports map[Key]*Report
	asked   map[Key]*witnesses // the endpoints of each host that were asked to wait
}

// AskedToWait counts an answer by which the target asked one endpoint to send no request before an
// instant, and reports whether the tally changed. The host is held once it asked two endpoints,
// because the limit of one resource must not hold up the others.
func (t *Tally) AskedToWait(key Key, endpoint [16]byte, until, now time.Time) bool {
	t.mu.Lock()
	if t.asked == nil {
		t.asked = map[Key]*witnesses{}
	}
	if t.asked[key] == nil {
		t.asked[key] = new(witnesses)
	}
	agreed := t.asked[key].add(now, endpoint, until)
	maps.DeleteFunc(t.asked, func(_ Key, w *witnesses) bool { return w.past(now) })
	t.mu.Unlock()
	return agreed && t.Hold(key, until)
}

// Outcome is the outcome of a request.
type Outcome struct {
	Verdict Verdict
	// RetryAfter is the instant for which a failure asked; zero: none.
	RetryAfter time.Time
	Endpoint   [16]byte
}

// Add counts an outcome of a request that is no probe. A success counts only if there is something
// to end: failures in the tally, or failures of the breaker as the worker knows it. So a healthy
// host causes no report. It reports whether the tally changed.
func (t *Tally) Add(key Key, o Outcome, known Breaker) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.reports[key]
	switch {
	case o.Verdict == Failure:
		r = t.report(key)
		r.Failures++
		r.Endpoint = o.Endpoint
		r.extend(o.RetryAfter)
		return true
	case o.Verdict == Success && (r != nil && r.Failures > 0 || known.Failures > 0):
		r = t.report(key)
		changed := !r.Succeeded || r.Failures > 0
		r.Succeeded, r.Failures = true, 0
		return changed
	default:
		return false
	}
}

// Hold counts an answer that asks for no request to the host before an instant, and reports whether
// the tally changed.
func (t *Tally) Hold(key Key, until time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.report(key)
	if !until.After(r.HoldUntil) {
		return false
	}
	r.HoldUntil = until
	return true
}

func (r *Report) extend(retryAfter time.Time) {
	if retryAfter.After(r.RetryAfter) {
		r.RetryAfter = retryAfter
	}
}

func (t *Tally) report(key Key) *Report {
	if t.reports == nil {
		t.reports = map[Key]*Report{}
	}
	if t.reports[key] == nil {
		t.reports[key] = &Report{Key: key}
	}
	return t.reports[key]
}

// Take returns the reports since the last call, and starts again.
func (t *Tally) Take() []Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]Report, 0, len(t.reports))
	for _, r := range t.reports {
		list = append(list, *r)
	}
	t.reports = nil
	return list
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// PutBack merges reports that could not be stored before those that were counted since.
func (t *Tally) PutBack(list []Report) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, old := range list {
		r := t.report(old.Key)
		if !r.Succeeded {
			r.Succeeded, r.Failures = old.Succeeded, r.Failures+old.Failures
		}
		r.Probes = slices.Concat(old.Probes, r.Probes)
		r.extend(old.RetryAfter)
		if r.Endpoint == ([16]byte{}) {
			r.Endpoint = old.Endpoint
		}
		r.HoldUntil = later(r.HoldUntil, old.HoldUntil)
	}
}
