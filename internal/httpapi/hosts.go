package httpapi

import (
	"context"
	"math"
	"time"

	"rubato/internal/hosts"
	"rubato/internal/httpapi/api"
)

// ListHosts returns a page of hosts with failures or settings.
func (s *Server) ListHosts(ctx context.Context, r api.ListHostsRequestObject) (api.ListHostsResponseObject, error) {
	digest := filterDigest("hosts", principalOf(ctx).TenantID)
	named := func(text string) bool { name, ok := hosts.ParseName(text); return ok && name == text }
	after, err := resumeName(r.Params.Cursor, digest, named)
	if err != nil {
		return nil, err
	}
	limit := limitOf(r.Params.Limit) + 1
	found, err := s.hosts.List(ctx, actorOf(ctx), after, limit)
	if err != nil {
		return nil, err
	}
	out := api.HostList{Items: []api.Host{}}
	found, more := page(found, limit)
	for _, b := range found {
		out.Items = append(out.Items, hostAnswer(b))
	}
	if more {
		out.NextCursor = new(nameCursor(found[len(found)-1].Host, digest))
	}
	return api.ListHosts200JSONResponse(out), nil
}

// GetHost returns a host.
func (s *Server) GetHost(ctx context.Context, r api.GetHostRequestObject) (api.GetHostResponseObject, error) {
	found, err := s.hosts.Get(ctx, actorOf(ctx), r.Host)
	if err != nil {
		return nil, err
	}
	return api.GetHost200JSONResponse(hostAnswer(found)), nil
}

// PatchHost changes the settings of the breaker of a host.
func (s *Server) PatchHost(ctx context.Context, r api.PatchHostRequestObject) (api.PatchHostResponseObject, error) {
	in := inputOf(ctx)
	patch := hosts.Patch{}
	if n, there := member(in.value, "failuresToOpen", r.Body.FailuresToOpen); there {
		patch.Threshold = new(int(n))
	}
	if ms, there := member(in.value, "windowMs", r.Body.WindowMs); there {
		patch.Window = new(time.Duration(ms) * time.Millisecond)
	}
	if limits := r.Body.Limits; limits != nil {
		given, _ := in.value["limits"].(map[string]any)
		if n, there := member(given, "concurrency", limits.Concurrency); there {
			patch.Concurrency = new(int(n))
		}
		if rate, there := member(given, "rate", limits.Rate); there {
			patch.Rate = &rate
		}
	}
	if in.bad() {
		return nil, in.refuse(patch.Check())
	}
	stored, err := s.hosts.Set(ctx, actorOf(ctx), r.Host, patch)
	if err != nil {
		return nil, err
	}
	return api.PatchHost200JSONResponse(hostAnswer(stored)), nil
}

// member returns a member of a patch, and whether it is there. Null is zero, which restores the
// default. A number outside the bounds of every setting, such as zero, is -1.
func member[N int64 | float64](patch map[string]any, name string, given *N) (value N, there bool) {
	if _, there = patch[name]; !there || given == nil {
		return 0, there
	}
	const most = 1 << 30
	if sound := *given > 0 && *given <= most; !sound { // NaN is none.
		return -1, true
	}
	return *given, true
}

// ResetHost closes the breaker of a host.
func (s *Server) ResetHost(ctx context.Context, r api.ResetHostRequestObject) (api.ResetHostResponseObject, error) {
	stored, err := s.hosts.Reset(ctx, actorOf(ctx), r.Host)
	if err != nil {
		return nil, err
	}
	return api.ResetHost200JSONResponse(hostAnswer(stored)), nil
}

func hostAnswer(b hosts.View) api.Host {
	return api.Host{
		Host:           b.Host,
		State:          api.HostState(b.State),
		Since:          b.Since.UTC(),
		Failures:       int64(b.Failures),
		FailuresToOpen: int64(b.ToOpen()),
		WindowMs:       b.FirstWindow().Milliseconds(),
		Windows:        int64(b.Openings),
		OpenUntil:      shown(b.OpenUntil),
		Probes:         int64(len(b.Seats)),
		Limits:         limitsAnswer(float64(b.Limits.Concurrency), b.Limits.Rate),
		Adaptive:       limitsAnswer(math.Floor(b.Concurrency.Value), b.Rate.Value),
		HeldUntil:      shown(b.HeldUntil),
		LatencyMs:      positive(b.Latency.Milliseconds()),
		Endpoints:      int64(b.Endpoints),
		Waiting:        int64(b.Waiting),
	}
}

// limitsAnswer returns limits, of which zero is none.
func limitsAnswer(concurrency, rate float64) api.HostLimits {
	return api.HostLimits{
		Concurrency: positive(concurrency),
		Rate:        positive(rate),
	}
}

// positive returns nil for zero.
func positive[N int64 | float64](n N) *N {
	if n == 0 {
		return nil
	}
	return &n
}
