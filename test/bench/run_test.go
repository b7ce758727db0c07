package main

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/dispatch/request"
	"rubato/internal/egress"
	"rubato/internal/egress/egresstest"
	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/runs"
)

// BenchmarkRun measures a worker without the database for a plain run: from a claim in its queue
// through request and answer to the result for the store. The target is in the same process and
// allocates nothing per request.
func BenchmarkRun(b *testing.B) {
	target := egresstest.Start(b, egresstest.Steady(egresstest.OK("ok")))
	client := egress.New(egress.Config{Rules: egress.Rules{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})
	b.Cleanup(client.Close)
	work := newWork(b, target.URL())
	worker := dispatch.New(dispatch.Config{
		Name: "bench", Version: "v1", Slots: 64, Rules: claims.Rules{Horizon: time.Second, LockTTL: time.Minute},
		PollInterval: 10 * time.Millisecond, Grace: time.Minute, Claims: work, Executions: work, Egress: client,
		Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	ctx, stop := context.WithCancel(b.Context())
	var ended sync.WaitGroup
	ended.Go(func() { _ = worker.Run(ctx) })
	b.Cleanup(func() { stop(); ended.Wait() })
	work.await(b, worker, 1000) // Connections, pools and buffers are as in a worker that has run for a while.

	b.ReportAllocs()
	b.ResetTimer()
	before := cpuTime(b)
	work.await(b, worker, b.N)
	reportCPU(b, cpuTime(b)-before)
}

// claimedWork is a store in memory with a number of due claims of one endpoint.
type claimedWork struct {
	target *request.Target

	mu     sync.Mutex
	next   int64 // counts claims
	left   int   // to be claimed
	going  int   // not finished yet
	failed int
	done   chan struct{}
}

func newWork(b *testing.B, url string) *claimedWork {
	b.Helper()
	spec := endpoints.Defaults()
	spec.Name, spec.URL, spec.BaselineInterval = "probe", url, time.Hour
	spec.Timeout, spec.MaxExecutionTime = 30*time.Second, 30*time.Second
	target, err := request.NewTarget([16]byte{}, &spec)
	require.NoError(b, err)
	return &claimedWork{target: &target, done: make(chan struct{}, 1)}
}

// await has a worker carry out so many runs.
func (w *claimedWork) await(b *testing.B, worker *dispatch.Worker, number int) {
	b.Helper()
	w.mu.Lock()
	w.left, w.going = number, number
	w.mu.Unlock()
	worker.Wake(time.Time{})
	<-w.done
	require.Zero(b, w.failed, "failed runs")
}

// Fleet returns one worker, so that it keeps every claim.
func (w *claimedWork) Fleet(context.Context, [16]byte) (dispatch.Fleet, error) {
	return dispatch.Fleet{Workers: 1}, nil
}

// ClaimDue implements claims.Store.
func (w *claimedWork) ClaimDue(_ context.Context, r claims.Request) ([]claims.Claim, time.Time, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now().Round(0)
	list := make([]claims.Claim, min(w.left, r.Limit))
	w.left -= len(list)
	for i := range list {
		w.next++
		slot := now.Add(-time.Hour).Add(time.Duration(w.next) * time.Millisecond)
		list[i] = claims.Claim{
			EndpointID: [16]byte{byte(w.next), byte(w.next >> 8), byte(w.next >> 16), byte(w.next >> 24)}, Token: w.next, Slot: slot, PlannedAt: slot,
			Attempt: 1, Source: string(governor.SourceBaselineInterval), LockedUntil: now.Add(time.Minute),
		}
	}
	return list, now, nil
}

// DueTenants implements claims.Store: all work is one tenant's.
func (w *claimedWork) DueTenants(context.Context, time.Duration, claims.TagSets) ([][16]byte, error) {
	return make([][16]byte, 1), nil
}

// Release implements claims.Store.
func (w *claimedWork) Release(_ context.Context, _ [16]byte, list []claims.Claim) (int, error) {
	return len(list), nil
}

// Wake implements claims.Store.
func (w *claimedWork) Wake(context.Context) error { return nil }

// ExtendLocks implements claims.Store.
func (w *claimedWork) ExtendLocks(context.Context, [16]byte, []claims.FencedRun, time.Duration) (kept, over [][16]byte, err error) {
	return nil, nil, nil
}

// Beat implements dispatch.WorkerStore.
func (w *claimedWork) Beat(context.Context, dispatch.Presence) (drain bool, err error) {
	return false, nil
}

// ProbeSpace implements dispatch.WorkerStore.
func (w *claimedWork) ProbeSpace(context.Context) error { return nil }

// Cancels implements dispatch.WorkerStore.
func (w *claimedWork) Cancels(context.Context, [16]byte) ([]dispatch.Cancel, error) { return nil, nil }

// Targets implements dispatch.Executions.
func (w *claimedWork) Targets(_ context.Context, list []claims.Claim) (map[[16]byte]*request.Target, error) {
	targets := make(map[[16]byte]*request.Target, len(list))
	for _, c := range list {
		targets[c.EndpointID] = w.target
	}
	return targets, nil
}

// Start implements dispatch.Executions.
func (w *claimedWork) Start(_ context.Context, r dispatch.Starting) ([]dispatch.Started, error) {
	now := time.Now().Round(0)
	started := make([]dispatch.Started, len(r.List))
	for i, s := range r.List {
		started[i] = dispatch.Started{
			EndpointID: s.Claim.EndpointID, TenantID: s.TenantID, RunID: s.RunID, StartedAt: now, LockedUntil: now.Add(r.LockTTL),
		}
	}
	return started, nil
}

// Detach implements dispatch.Executions. Every run stays with its endpoint.
func (w *claimedWork) Detach(context.Context, dispatch.Detaching) (item [16]byte, ours bool, err error) {
	return item, true, nil
}

// LiveStarts implements dispatch.Executions.
func (w *claimedWork) LiveStarts(context.Context, [16]byte, []dispatch.Start) ([]dispatch.Started, error) {
	return nil, nil
}

// Confirm implements dispatch.Executions.
func (w *claimedWork) Confirm(context.Context, [16]byte, claims.FencedRun) (bool, error) {
	return true, nil
}

// Finish implements dispatch.Executions.
func (w *claimedWork) Finish(_ context.Context, f dispatch.Finish) (dispatch.Finished, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, run := range f.Runs {
		if run.Outcome.Status != runs.Succeeded {
			w.failed++
		}
	}
	if w.going -= len(f.Runs); w.going == 0 {
		w.done <- struct{}{}
	}
	return dispatch.Finished{}, nil
}
