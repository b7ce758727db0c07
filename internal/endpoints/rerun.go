package endpoints

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"rubato/internal/errs"
)

// WholeRequest holds the fields of a [Spec] that make its request. A rerun keeps them; timeouts,
// success rules and retries are those of the endpoint as it is now.
type WholeRequest struct {
	URL     string            `json:"url"`
	Method  string            `json:"method"`
	Headers map[string]string `json:"headers,omitempty"`
	Query   map[string]string `json:"query,omitempty"`
	Body    string            `json:"body,omitempty"`
	Auth    *Auth             `json:"auth,omitempty"`
	TLS     *TLS              `json:"tls,omitempty"`
	Sign    bool              `json:"sign,omitempty"`
}

// Whole returns the request of a spec.
func (s *Spec) Whole() WholeRequest {
	return WholeRequest{
		URL:     s.URL,
		Method:  s.Method,
		Headers: s.Headers,
		Query:   s.Query,
		Body:    s.Body,
		Auth:    s.Auth,
		TLS:     s.TLS,
		Sign:    s.Sign,
	}
}

// onto returns a copy of a spec with this request.
func (r *WholeRequest) onto(s Spec) Spec {
	s.URL, s.Method, s.Body, s.Sign = r.URL, r.Method, r.Body, r.Sign
	s.Headers, s.Query = maps.Clone(r.Headers), maps.Clone(r.Query)
	s.Auth, s.TLS = r.Auth, r.TLS
	return s
}

// Spec returns a spec with this request alone.
func (r *WholeRequest) Spec() *Spec { return new(r.onto(Spec{})) }

// wholeFields are the fields of a spec that a [WholeRequest] replaces.
func wholeFields() []string {
	return []string{"url", "method", "headers", "query", "body", "auth", "tls", "sign"}
}

// RecordedRun is a recorded run.
type RecordedRun struct {
	RunID    [16]byte
	Endpoint ID
	// Slot is the due time of the run.
	Slot time.Time
	// At is when a worker claimed the run. The version in force then made its request, because a
	// later change voids the claim.
	At time.Time
	// Key is the Idempotency-Key of the request, unless the run repeated another one under its key.
	Key string
}

// PastRequest is the request of a recorded run.
type PastRequest struct {
	// Version is the version of the configuration that made it; 0: the version is no longer kept.
	Version int64
	// Spec is the configuration with the overrides of the run; nil: it is no longer kept.
	Spec *Spec
	// Key is its Idempotency-Key.
	Key string
	// RerunOf is the run that it repeated; zero: none.
	RerunOf [16]byte
	// DueFor is the due time that its templates used.
	DueFor time.Time
}

// Requests reads the requests of recorded runs.
type Requests interface {
	// PastRequest returns the request of a run of a tenant.
	PastRequest(ctx context.Context, tenant [16]byte, run RecordedRun) (PastRequest, error)
}

// Rerun is the request to repeat a recorded run.
type Rerun struct {
	// OneOffRequest holds deadline, priority and idempotency key. Its override is not used.
	OneOffRequest

	Past RecordedRun
	// AsNow sends the request of the endpoint as it is configured now, without the overrides of the
	// recorded run.
	AsNow bool
	// SameKey sends the Idempotency-Key of the recorded run, so that a target that has carried out
	// its request does not do so again.
	SameKey bool
}

// PastRequest returns the request of a recorded run.
func (s *Service) PastRequest(ctx context.Context, by Actor, run RecordedRun) (PastRequest, error) {
	return s.queue.PastRequest(ctx, by.TenantID, run)
}

// Rerun enqueues a one-off run that repeats a recorded one; see [Service.RunNow]. The error is an
// [errs.Conflict] if the configuration of that time is no longer kept, and an [errs.Invalid] if its
// request is no longer allowed.
func (s *Service) Rerun(ctx context.Context, by Actor, r Rerun) (Queued, error) {
	was, err := s.queue.PastRequest(ctx, by.TenantID, r.Past)
	if err != nil {
		return Queued{}, err
	}
	r.Override = Override{}
	if !r.AsNow {
		if was.Spec == nil {
			return Queued{}, errs.New(errs.Conflict, "request_unknown",
				`the configuration that made the request of that run is no longer kept, because it was replaced longer ago than the audit log reaches; rerun it with "as": "now"`)
		}
		r.Override.Whole, r.Override.DueFor = new(was.Spec.Whole()), was.DueFor
	}
	if r.SameKey {
		r.Override.SentKey = was.Key
	}
	r.RerunOf = r.Past.RunID
	return s.RunNow(ctx, by, r.Past.Endpoint, r.OneOffRequest)
}

// replaced reports whether an override with a whole request replaces the field of a spec.
func replaced(field string) bool {
	name, _, _ := strings.Cut(field, ".")
	return slices.Contains(wholeFields(), name)
}
