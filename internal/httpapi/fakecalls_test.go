package httpapi_test

import (
	"context"
	"time"

	"rubato/internal/auditlog"
	"rubato/internal/calls"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/runs"
)

// fakeCalls is a calls.Store that keeps one call, which waits.
type fakeCalls struct{ *memory }

var _ calls.Store = fakeCalls{}

// sampleCall returns the call that the store keeps.
func sampleCall() *calls.Call {
	spec := calls.Defaults()
	spec.URL = "https://p.example/"
	return &calls.Call{
		ID:        calls.ID(endpoints.ID{7}),
		TenantID:  samples()[1].TenantID,
		CreatedAt: now,
		Author:    "writer",
		NotBefore: now,
		Spec:      spec,
		State:     runs.Waiting,
	}
}

func (s fakeCalls) Send(_ context.Context, c *calls.Call, place func(*calls.Call, time.Time)) (*calls.Call, error) {
	place(c, now)
	return c, s.err
}

func (s fakeCalls) Get(_ context.Context, of [16]byte, id calls.ID) (*calls.Call, error) {
	if s.err != nil {
		return nil, s.err
	}
	if of != sampleCall().TenantID || id != sampleCall().ID {
		return nil, errs.New(errs.NotFound, "not_found", "there is no such call")
	}
	return sampleCall(), nil
}

func (s fakeCalls) List(_ context.Context, f calls.Filter) ([]*calls.Call, error) {
	if s.err != nil || f.TenantID != sampleCall().TenantID {
		return nil, s.err
	}
	return []*calls.Call{sampleCall()}, nil
}

func (s fakeCalls) Cancel(context.Context, auditlog.Actor, calls.ID) error { return s.err }
