package main

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/devpg/devpgtest"
	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/runs"
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/items"
	keystore "rubato/internal/store/keys"
	"rubato/internal/store/pg"
)

// batchRuns is how many runs a full batch of a worker has.
const batchRuns = 250

// BenchmarkClaimBatch measures worker and Postgres for the claim of a full batch with endpoints
// that the worker does not know.
func BenchmarkClaimBatch(b *testing.B) {
	s := openStores(b)
	s.measure(b, func(only func(func())) {
		s.change(b)
		var list []dispatch.Start
		only(func() {
			list = s.claim(b)
			s.load(b, list)
		})
		s.start(b, list)
		s.finish(b, s.finishOf(list))
	})
}

// BenchmarkStartBatch is the same for the start of a full batch.
func BenchmarkStartBatch(b *testing.B) {
	s := openStores(b)
	s.measure(b, func(only func(func())) {
		list := s.claim(b)
		only(func() { s.start(b, list) })
		s.finish(b, s.finishOf(list))
	})
}

// BenchmarkFinishBatch measures the same for recording a batch of runs, with all effects.
func BenchmarkFinishBatch(b *testing.B) {
	s := openStores(b)
	s.measure(b, func(only func(func())) {
		list := s.claim(b)
		s.start(b, list)
		ended := s.finishOf(list)
		only(func() { s.finish(b, ended) })
	})
}

// measure carries out cycles, of each of which only a part counts.
func (s *stores) measure(b *testing.B, cycle func(only func(func()))) {
	b.Helper()
	b.ReportAllocs()
	var worker, postgres time.Duration
	for b.Loop() {
		b.StopTimer()
		cycle(func(part func()) {
			served, used := s.backends.used(b), cpuTime(b)
			b.StartTimer()
			part()
			b.StopTimer()
			worker += cpuTime(b) - used
			postgres += s.backends.used(b) - served
		})
		b.StartTimer()
	}
	reportCPU(b, worker)
	reportBackends(b, postgres)
}

// stores are the stores of a database with endpoints for a batch. Its clock advances by one
// interval with each claim.
type stores struct {
	backends   backends
	claims     *items.Claims
	executions *items.Executions
	worker     [16]byte
	now        time.Time
	bases      map[runs.ID]dispatch.Basis // bases that the starts read
}

const batchInterval = time.Minute

func openStores(b *testing.B) *stores {
	b.Helper()
	url := devpgtest.NewDatabase(b, devpgtest.Template{Key: pg.SchemaKey(), Migrate: func(ctx context.Context, url string) error {
		_, err := pg.MigrateUp(ctx, url)
		return err
	}})
	s := &stores{backends: backendsOf(b, url), worker: uuid.Must(uuid.NewV7()), now: time.Now().UTC().Truncate(time.Second), bases: map[runs.ID]dispatch.Basis{}}
	db, err := pg.Open(b.Context(), pg.Config{URL: url, Now: func() time.Time { return s.now }})
	require.NoError(b, err)
	b.Cleanup(db.Close)
	s.claims, s.executions = items.NewClaims(db), items.NewExecutions(endpointstore.NewStates(db, 0))
	service := endpoints.NewService(endpointstore.NewStore(endpointstore.NewStates(db, 0)), anywhere{})
	for range batchRuns {
		spec := endpoints.Defaults()
		spec.Name, spec.URL, spec.BaselineInterval = "probe", "http://192.0.2.7/", batchInterval
		_, _, err := service.Register(b.Context(), endpoints.Actor{TenantID: keystore.DefaultTenant, Name: "bench"}, spec)
		require.NoError(b, err)
	}
	_, err = s.executions.Beat(b.Context(), dispatch.Presence{ID: s.worker, Name: "bench", Version: "v1", State: dispatch.Active, Slots: batchRuns})
	require.NoError(b, err)
	return s
}

// anywhere allows every URL and header.
type anywhere struct{}

func (anywhere) CheckURL(string) *errs.Field            { return nil }
func (anywhere) CheckHeader(string, string) *errs.Field { return nil }

// claim returns the starts of all endpoints, which are due by then.
func (s *stores) claim(b *testing.B) []dispatch.Start {
	b.Helper()
	s.now = s.now.Add(batchInterval)
	list, _, err := s.claims.ClaimDue(b.Context(), claims.Request{Worker: s.worker, Limit: batchRuns, LockTTL: time.Minute})
	require.NoError(b, err)
	require.Len(b, list, batchRuns)
	starts := make([]dispatch.Start, len(list))
	for i, c := range list {
		starts[i] = dispatch.Start{
			Claim: c, TenantID: keystore.DefaultTenant, RunID: runs.NewID(c.Slot, c.EndpointID, c.Attempt, c.InfraAttempt), Execution: time.Minute,
		}
	}
	return starts
}

// change makes a new version of every endpoint.
func (s *stores) change(b *testing.B) {
	b.Helper()
	_, err := s.backends.conn.Exec(b.Context(), "UPDATE endpoints SET version = version + 1")
	require.NoError(b, err)
	_, err = s.backends.conn.Exec(b.Context(), "UPDATE schedules SET version = version + 1")
	require.NoError(b, err)
}

// load reads what starts are going to call.
func (s *stores) load(b *testing.B, list []dispatch.Start) {
	b.Helper()
	claimed := make([]claims.Claim, len(list))
	for i, l := range list {
		claimed[i] = l.Claim
	}
	targets, err := s.executions.Targets(b.Context(), claimed)
	require.NoError(b, err)
	require.Len(b, targets, len(list))
}

func (s *stores) start(b *testing.B, list []dispatch.Start) {
	b.Helper()
	started, err := s.executions.Start(b.Context(), dispatch.Starting{Worker: s.worker, List: list, LockTTL: time.Minute})
	require.NoError(b, err)
	require.Len(b, started, len(list))
	for _, one := range started {
		s.bases[one.RunID] = one.Basis
	}
}

// finishOf returns the results of starts, which end a millisecond later. The clock advances with
// them, because a finish by basis is refused for a run that ends after the database's clock.
func (s *stores) finishOf(list []dispatch.Start) dispatch.Finish {
	started := s.now
	s.now = s.now.Add(2 * time.Millisecond)
	f := dispatch.Finish{Worker: s.worker, Runs: make([]runs.Run, len(list)), LockTTL: time.Minute, Now: s.now, Bases: make([]dispatch.Basis, len(list))}
	for i, l := range list {
		f.Bases[i] = s.bases[l.RunID]
		delete(s.bases, l.RunID)
		f.Runs[i] = runs.Run{
			ID: l.RunID, EndpointID: l.Claim.EndpointID, TenantID: l.TenantID, ScheduledFor: l.Claim.Slot, Attempt: l.Claim.Attempt,
			Source: l.Claim.Source, ClaimToken: l.Claim.Token, WorkerID: s.worker, StartedAt: started, FinishedAt: started.Add(time.Millisecond),
			Outcome: runs.Outcome{
				Status: runs.Succeeded, Reason: runs.HTTPStatus, MaybeSent: true, StatusCode: 200, ResponseBytes: 2, Body: []byte("ok"),
				BodyDigest: runs.Digest([]byte("ok")), Phases: runs.Phases{Wait: 200 * time.Microsecond, Transfer: 20 * time.Microsecond},
			},
		}
	}
	return f
}

func (s *stores) finish(b *testing.B, f dispatch.Finish) {
	b.Helper()
	done, err := s.executions.Finish(b.Context(), f)
	require.NoError(b, err)
	require.Empty(b, done.Late)
}
