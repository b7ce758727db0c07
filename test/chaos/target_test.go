package chaos

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"rubato/internal/audit"
)

// target is a service that Rubato calls. It records the arrival and the end of every request, and
// guards its effects by the fence: on each path a request takes effect only if its fence is above
// every other so far. Endpoints whose runs overlap send the header Overlaps; their fences count for
// each due time.
//
// The first part of a path is the delay of the answer in milliseconds, such as /20/name. Requests
// end early when their client disconnects, and when release is called; /hang/name ends in no other
// way.
type target struct {
	*httptest.Server
	released chan struct{}
	release  func()
	// fails makes answers 500.
	fails atomic.Bool

	mu       sync.Mutex
	log      []*audit.Request
	fences   map[string]int64    // the highest seen, by the name of the effect
	keys     map[string][]string // Idempotency-Keys in the order of their requests, by path
	rejected int
}

func newTarget(t *testing.T) *target {
	t.Helper()
	tgt := &target{released: make(chan struct{}), fences: map[string]int64{}, keys: map[string][]string{}}
	tgt.release = sync.OnceFunc(func() { close(tgt.released) })
	tgt.Server = httptest.NewServer(http.HandlerFunc(tgt.serve))
	t.Cleanup(tgt.Close)
	t.Cleanup(tgt.release)
	return tgt
}

func (tgt *target) serve(w http.ResponseWriter, r *http.Request) {
	entry, current := tgt.arrive(r)
	if !current {
		w.WriteHeader(http.StatusConflict)
		return
	}
	_, _ = io.Copy(io.Discard, r.Body) // Only then does the server notice a disconnect.
	wait, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	ms, err := strconv.Atoi(wait)
	var over <-chan time.Time
	if err == nil {
		timer := time.NewTimer(time.Duration(ms) * time.Millisecond)
		defer timer.Stop()
		over = timer.C
	}
	gone := false
	select {
	case <-over:
	case <-tgt.released:
	case <-r.Context().Done():
		gone = true
	}
	switch {
	case !tgt.end(entry, guarded(r), gone):
		w.WriteHeader(http.StatusConflict)
	case tgt.fails.Load():
		w.WriteHeader(http.StatusInternalServerError)
	}
}

// arrive records a request, and reports whether its fence is above every other of its path. If not,
// the request ends.
func (tgt *target) arrive(r *http.Request) (entry *audit.Request, current bool) {
	entry = requestOf(r.Header)
	tgt.mu.Lock()
	defer tgt.mu.Unlock()
	tgt.log = append(tgt.log, entry)
	tgt.keys[r.URL.Path] = append(tgt.keys[r.URL.Path], r.Header.Get("Idempotency-Key"))
	if entry.Fence <= tgt.fences[guarded(r)] {
		tgt.rejected++
		entry.Ended = entry.Arrived
		return entry, false
	}
	tgt.fences[guarded(r)] = entry.Fence
	return entry, true
}

// guarded returns the name of the effect that the fence of a request guards.
func guarded(r *http.Request) string {
	if r.Header.Get("Overlaps") == "" {
		return r.URL.Path
	}
	return r.URL.Path + "@" + r.Header.Get("Rubato-Scheduled-For")
}

// requestOf reads the headers of a request that identify its run.
func requestOf(h http.Header) *audit.Request {
	entry := &audit.Request{RunID: h.Get("Rubato-Run-Id"), Arrived: time.Now().UTC()}
	entry.Attempt, _ = strconv.Atoi(h.Get("Rubato-Attempt"))
	entry.Fence, _ = strconv.ParseInt(h.Get("Rubato-Fence"), 10, 64)
	entry.ScheduledFor, _ = time.Parse(time.RFC3339, h.Get("Rubato-Scheduled-For"))
	return entry
}

// end records the end of a request, and reports whether it took effect. It did not if a higher
// fence has arrived meanwhile.
func (tgt *target) end(entry *audit.Request, of string, gone bool) bool {
	tgt.mu.Lock()
	defer tgt.mu.Unlock()
	entry.Ended = time.Now().UTC()
	if gone {
		return false
	}
	if entry.Fence < tgt.fences[of] {
		tgt.rejected++
		return false
	}
	entry.Accepted = true
	return true
}

// requests returns a copy of the log.
func (tgt *target) requests() []audit.Request {
	tgt.mu.Lock()
	defer tgt.mu.Unlock()
	list := make([]audit.Request, len(tgt.log))
	for i, entry := range tgt.log {
		list[i] = *entry
	}
	return list
}

// keysOf returns the Idempotency-Keys of the requests for a path.
func (tgt *target) keysOf(path string) []string {
	tgt.mu.Lock()
	defer tgt.mu.Unlock()
	return slices.Clone(tgt.keys[path])
}

func (tgt *target) refusals() int {
	tgt.mu.Lock()
	defer tgt.mu.Unlock()
	return tgt.rejected
}

// open returns the number of open requests.
func (tgt *target) open() int {
	n := 0
	for _, r := range tgt.requests() {
		if r.Ended.IsZero() {
			n++
		}
	}
	return n
}
