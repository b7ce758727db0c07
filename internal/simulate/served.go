package simulate

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"rubato/internal/endpoints"
	"rubato/internal/runs"
)

// Served is the target of an endpoint in real time: an HTTP handler whose content changes as in a
// simulation. It counts requests and detected changes, so that the product can be compared with its
// simulation. It is safe for concurrent use.
type Served struct {
	name   string
	policy string
	begin  time.Time
	length time.Duration

	mu    sync.Mutex
	actor actor
}

// Serve returns the target of the endpoint under a policy, from an instant on. Equal seeds give
// equal content under each policy.
func (e *Endpoint) Serve(p *Policy, begin time.Time, o ServeOptions) *Served {
	s := &Served{
		name:   e.Name,
		policy: p.Name,
		begin:  begin,
		length: o.Length,
		actor: actor{
			target:   newTarget(e, o.Seed, o.Length),
			endpoint: &endpoints.Endpoint{Spec: p.Spec},
		},
	}
	s.actor.target.begin = begin.UTC()
	s.actor.changes = int64(len(s.actor.target.changes))
	s.actor.hours = make([]int64, o.Length/time.Hour+1)
	return s
}

// ServeOptions are the extent of a [Served].
type ServeOptions struct {
	// Length is the time for which content exists, positive. Later requests are answered 410.
	Length time.Duration
	Seed   uint64
}

// ServeHTTP answers a request, and counts it if the time has begun and not ended.
func (s *Served) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := time.Since(s.begin)
	if at < 0 || at >= s.length {
		w.WriteHeader(http.StatusGone)
		return
	}
	o, body, tag := s.answer(at)
	if latency := s.actor.target.Latency; latency > 0 {
		select {
		case <-time.After(latency):
		case <-r.Context().Done():
			return
		}
	}
	h := w.Header()
	if !o.RetryAfter.IsZero() {
		h.Set("Retry-After", strconv.Itoa(wholeSeconds(s.actor.target.RetryAfter)))
	}
	if !o.TargetNext.IsZero() {
		h.Set("Rubato-Next", strconv.Itoa(wholeSeconds(s.actor.target.Next)))
	}
	if o.Status != runs.Succeeded {
		w.WriteHeader(o.StatusCode)
		return
	}
	if s.actor.target.ETag {
		h.Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	h.Set("Content-Type", "application/json")
	_, _ = w.Write(body) // The client may be gone.
}

func wholeSeconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }

// answer returns the outcome of a request, with the body and its entity tag.
func (s *Served) answer(at time.Duration) (o runs.Outcome, body []byte, tag string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &s.actor.target
	t.told = -1 // The entity tag of the request decides.
	o = t.answer(at)
	s.actor.score(at, &o)
	if o.Status != runs.Succeeded {
		return o, nil, ""
	}
	return o, append(t.appendNoise(fmt.Appendf(nil, `{"version":%d`, t.version), at), '}'), fmt.Sprintf(`"v%d"`, t.version)
}

// Row returns the result after the end. It has no tempo moves, because a target does not see them.
// The error is a fault of the endpoint's configuration.
func (s *Served) Row() (Row, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.actor.detect(s.length, s.length)
	if err := s.actor.compare(s.length); err != nil {
		return Row{}, err
	}
	return newRow(rowKey{name: s.name, policy: s.policy}, &s.actor.tally, Options{Length: s.length, Seeds: 1}), nil
}
