package tracing

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/egress"
	"rubato/internal/runs"
)

// instant is a store that does everything at once.
type instant struct {
	dispatch.Executions
	claims.Store

	err error
}

// Start implements dispatch.Executions.
func (s instant) Start(_ context.Context, r dispatch.Starting) ([]dispatch.Started, error) {
	if s.err != nil {
		return nil, s.err
	}
	started := make([]dispatch.Started, len(r.List))
	for i, l := range r.List {
		started[i] = dispatch.Started{RunID: l.RunID}
	}
	return started, nil
}

// Finish implements dispatch.Executions.
func (s instant) Finish(context.Context, dispatch.Finish) (dispatch.Finished, error) {
	return dispatch.Finished{}, s.err
}

// ClaimDue implements claims.Store.
func (s instant) ClaimDue(context.Context, claims.Request) ([]claims.Claim, time.Time, error) {
	return nil, time.Time{}, s.err
}

func record(t *testing.T, sampler sdktrace.Sampler) (*Provider, *tracetest.InMemoryExporter) {
	t.Helper()
	out := tracetest.NewInMemoryExporter()
	p := newProvider(sampler, resource.Empty(), sdktrace.WithSyncer(out))
	t.Cleanup(func() { _ = p.Close(context.Background()) })
	return p, out
}

// Without a collector no wrapper stands between a worker and its stores.
func TestTracingOffCreatesNothing(t *testing.T) {
	t.Parallel()
	p, err := Open(t.Context(), Config{}, nil)
	require.NoError(t, err)
	require.Nil(t, p)
	require.Nil(t, p.Tracers())
	require.NoError(t, p.Close(t.Context()))
	s := instant{}
	require.Equal(t, claims.Store(s), NewClaims(p, s))
}

// A run leaves nothing behind in memory, however it ends.
func TestEndedRunsAreRemovedFromTheTracer(t *testing.T) {
	t.Parallel()
	p, out := record(t, sdktrace.AlwaysSample())
	good, bad := NewRuns(p, instant{}), NewRuns(p, instant{err: errors.New("away")})
	left := func(r *Runs) (n int) {
		r.open.Range(func(any, any) bool { n++; return true })
		return n
	}
	finish := dispatch.Finish{Runs: []runs.Run{{ID: runs.ID{1}, Outcome: runs.Outcome{Status: runs.Succeeded}}, {ID: runs.ID{9}}}}
	_, err := good.Start(t.Context(), dispatch.Starting{List: []dispatch.Start{{RunID: runs.ID{1}}, {RunID: runs.ID{2}}}})
	require.NoError(t, err)
	require.Equal(t, 2, left(good))
	_, err = good.Finish(t.Context(), finish)
	require.NoError(t, err)
	good.Dropped(runs.ID{2})
	good.Dropped(runs.ID{2})
	require.Zero(t, left(good))

	_, err = bad.Start(t.Context(), dispatch.Starting{List: []dispatch.Start{{RunID: runs.ID{1}}}})
	require.Error(t, err)
	require.Zero(t, left(bad), "what did not start is not followed")
	_, _, err = NewClaims(p, instant{err: errors.New("away")}).ClaimDue(t.Context(), claims.Request{})
	require.Error(t, err)
	_, _, err = NewClaims(p, instant{}).ClaimDue(t.Context(), claims.Request{})
	require.NoError(t, err)
	claimed := 0
	for _, span := range out.GetSpans() {
		if span.Name == "claim" {
			claimed++
		}
	}
	require.Equal(t, 1, claimed, "looking and finding nothing is no news")
}

// A run that the sampler leaves out sends no span, and its traceparent is marked as not sampled.
func TestTraceparentOfUnsampledRunsIsMarked(t *testing.T) {
	t.Parallel()
	p, out := record(t, sdktrace.NeverSample())
	r := NewRuns(p, instant{})
	_, err := r.Start(t.Context(), dispatch.Starting{List: []dispatch.Start{{RunID: runs.ID{1, 15: 2}}}})
	require.NoError(t, err)
	parent, done := r.Request(runs.ID{1, 15: 2}, egress.Request{Method: "GET", URL: "https://a.example/"})
	done(egress.Response{StatusCode: 200}, nil)
	require.Regexp(t, "^00-01000000000000000000000000000002-[0-9a-f]{16}-00$", parent)
	parent, done = r.Request(runs.ID{7}, egress.Request{})
	done(egress.Response{}, nil)
	require.Empty(t, parent, "a run that is not known keeps the header that it has")
	require.Empty(t, out.GetSpans())
}

// BenchmarkRun is what following a run costs a worker, from start to finish.
func BenchmarkRun(b *testing.B) {
	for name, sampler := range map[string]sdktrace.Sampler{"Off": nil, "Unsampled": sdktrace.NeverSample(), "Sampled": sdktrace.AlwaysSample()} {
		b.Run(name, func(b *testing.B) {
			var store dispatch.Executions = instant{}
			var tracer dispatch.Tracer
			if sampler != nil {
				p := newProvider(sampler, resource.Empty(), sdktrace.WithBatcher(tracetest.NewNoopExporter()))
				defer func() { _ = p.Close(context.Background()) }()
				follow := NewRuns(p, store)
				store, tracer = follow, follow
			}
			q := egress.Request{Method: "GET", URL: "https://shop.example/health"}
			starts, ended := make([]dispatch.Start, 1), make([]runs.Run, 1)
			b.ReportAllocs()
			var n uint64
			for b.Loop() {
				n++
				binary.BigEndian.PutUint64(starts[0].RunID[:], n)
				ended[0].ID = starts[0].RunID
				_, _ = store.Start(b.Context(), dispatch.Starting{List: starts})
				if tracer != nil {
					_, done := tracer.Request(starts[0].RunID, q)
					done(egress.Response{StatusCode: 200}, nil)
				}
				_, _ = store.Finish(b.Context(), dispatch.Finish{Runs: ended})
			}
		})
	}
}
