package dispatch_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"rubato/internal/calls"
	"rubato/internal/chains"
	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/loop"
	"rubato/internal/runs"
	callstore "rubato/internal/store/calls"
	chainstore "rubato/internal/store/chains"
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/history"
	"rubato/internal/store/pg"
)

// withChains starts a worker that starts chains, and the loop that advances them.
func (b *bundle) withChains(t *testing.T) *chains.Service {
	t.Helper()
	db, err := pg.Open(t.Context(), pg.Config{URL: b.url})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	store := chainstore.New(db)
	service := chains.NewService(store, store)
	states := endpointstore.NewStore(endpointstore.NewStates(db, 0))
	go chainstore.NewAdvancer(chainstore.Config{
		DB:        db,
		Endpoints: states,
		Service:   endpoints.NewService(states, anyTarget{}),
		Calls:     calls.NewService(callstore.New(db), anyTarget{}),
		Cancels:   history.NewRuns(db),
		Loops:     loop.NewRunner(slog.New(slog.DiscardHandler), prometheus.NewRegistry()),
		Logger:    slog.New(slog.DiscardHandler),
	}).Run(t.Context())
	suspended := b.suspensions(t)
	b.work(t, func(c *dispatch.Config) { c.Chains, c.Suspensions = service, suspended })
	return service
}

// startsOrder is an edit for an endpoint that starts the chain order.
func startsOrder(body string) func(*endpoints.Spec) {
	return func(s *endpoints.Spec) { s.URL, s.Method, s.Body = "chain:order", "POST", body }
}

// ended returns the last run of an endpoint after its end.
func (b *bundle) ended(t *testing.T, e *endpoints.Endpoint) runs.Run {
	t.Helper()
	b.await(t, 1, "SELECT count(*) FROM runs WHERE endpoint_id = $1 AND status <> 'skipped'", e.ID)
	run, err := b.runs.Get(t.Context(), tenant.TenantID, query[[16]byte](t, b, "SELECT id FROM runs WHERE endpoint_id = $1 AND status <> 'skipped'", e.ID))
	require.NoError(t, err)
	return run
}

// TestAScheduledChainIsOneRunOfItsEndpoint has a chain that succeeds, one whose step fails, and an
// input that the chain does not declare.
func TestAScheduledChainIsOneRunOfItsEndpoint(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/bad" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]int{"id": 9})
	})
	service := b.withChains(t)
	_, _, err := service.Put(t.Context(), tenant, chains.Definition{
		Name:    "order",
		Inputs:  map[string]chains.Input{"path": {Required: true}},
		Steps:   []chains.StepSpec{{Name: "a", Request: &chains.Request{URL: target.URL() + "/{{input.path}}"}, Outputs: map[string]string{"id": "$.id"}}},
		Outputs: map[string]string{"made": "steps.a.output.id"},
	})
	require.NoError(t, err)

	good := b.ended(t, b.register(t, target, startsOrder(`{"path": "good"}`)))
	require.Equal(t, runs.Succeeded, good.Outcome.Status, good.Outcome.Error)
	require.Equal(t, http.StatusOK, good.Outcome.StatusCode)
	require.JSONEq(t, `{"made": 9}`, string(good.Outcome.Body))

	bad := b.ended(t, b.register(t, target, startsOrder(`{"path": "bad"}`)))
	require.Equal(t, runs.Failed, bad.Outcome.Status)
	require.Equal(t, http.StatusFailedDependency, bad.Outcome.StatusCode)
	require.Contains(t, string(bad.Outcome.Body), `"reason":"step_failed"`)

	refused := b.ended(t, b.register(t, target, startsOrder(`{"place": "x"}`)))
	require.Equal(t, http.StatusUnprocessableEntity, refused.Outcome.StatusCode)
	require.Contains(t, string(refused.Outcome.Body), "input.place")

	gone := b.ended(t, b.register(t, target, func(s *endpoints.Spec) { s.URL, s.Method = "chain:none", "POST" }))
	require.Equal(t, http.StatusNotFound, gone.Outcome.StatusCode)
	require.Equal(t, 2, query[int](t, b, "SELECT count(*) FROM chain_runs"))
}

// TestAChainIsRefusedBeyondTheOpenRunsOfATenant has as many open runs as a tenant may have.
func TestAChainIsRefusedBeyondTheOpenRunsOfATenant(t *testing.T) {
	t.Parallel()
	b, target := setup(t), startAccepting(t)
	service := b.withChains(t)
	_, _, err := service.Put(t.Context(), tenant, chains.Definition{Name: "order", Steps: []chains.StepSpec{{Name: "a", Request: &chains.Request{URL: target.URL()}}}})
	require.NoError(t, err)
	_, err = b.pool.Exec(t.Context(), `INSERT INTO chain_runs (id, tenant_id, chain, version, definition, input, requested_by, created_at, advance_at)
		SELECT gen_random_uuid(), $1, 'order', 1, '{}', '{}', 'tester', now(), now() + interval '1 day' FROM generate_series(1, $2)`, tenant.TenantID, chains.MaxOpenRuns)
	require.NoError(t, err)
	full := b.ended(t, b.register(t, target, startsOrder(`{}`)))
	require.Equal(t, http.StatusTooManyRequests, full.Outcome.StatusCode)
	require.Contains(t, string(full.Outcome.Body), "10000 runs of chains have not ended yet")
}

// TestACanceledRunCancelsItsChain cancels the run of an endpoint whose chain waits for its target.
func TestACanceledRunCancelsItsChain(t *testing.T) {
	t.Parallel()
	b, target := setup(t), startAccepting(t)
	service := b.withChains(t)
	_, _, err := service.Put(t.Context(), tenant, chains.Definition{Name: "order", Steps: []chains.StepSpec{
		{Name: "a", EndpointID: b.register(t, target, func(s *endpoints.Spec) {
			s.Method, s.StartAt, s.Async.Timeout = "POST", time.Now().Add(24*time.Hour), time.Hour
		}).ID.String()},
	}})
	require.NoError(t, err)
	b.register(t, target, startsOrder(""))
	b.await(t, 1, "SELECT count(*) FROM chain_steps WHERE status = 'active'")
	b.await(t, 1, "SELECT count(*) FROM suspensions WHERE status_url LIKE 'chain:%'")
	b.exec(t, "DELETE FROM suspensions WHERE status_url LIKE 'chain:%'")
	b.await(t, 1, "SELECT count(*) FROM chain_runs WHERE cancel_requested_at IS NOT NULL")
}
