package chains_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/chains"
	"rubato/internal/endpoints"
	"rubato/internal/runs"
	"rubato/internal/store/storetest"
)

// starter registers an endpoint that is due at once and every minute, and starts chains.
func (b *bundle) starter(t *testing.T, startChains ...string) *endpoints.Endpoint {
	t.Helper()
	return b.Register(t, func(s *endpoints.Spec) { s.BaselineInterval, s.StartChains = time.Minute, startChains })
}

// finish carries out the due run of an endpoint with an outcome, and starts the chains.
func (b *bundle) finish(t *testing.T, outcome runs.Outcome) runs.Run {
	t.Helper()
	b.now = b.At(b.now.Add(10 * time.Minute)) // After the backoff.
	c := b.ClaimOne(t, b.worker)
	run := storetest.Succeed(b.worker, c, b.Start(t, b.worker, c)[0])
	run.Outcome = outcome
	b.Finish(t, b.worker, 0, run)
	for more := true; more; {
		var err error
		more, err = b.advancer.StartNext(t.Context())
		require.NoError(t, err)
	}
	return run
}

// put stores a chain of one call that declares inputs.
func (b *bundle) put(t *testing.T, name string, inputs ...string) {
	t.Helper()
	d := chains.Definition{Name: name, Inputs: map[string]chains.Input{}, Steps: []chains.StepSpec{{Name: "a", Request: &chains.Request{URL: "http://target.example/"}}}}
	for _, in := range inputs {
		d.Inputs[in] = chains.Input{Required: true}
	}
	_, _, err := b.chains.Put(t.Context(), storetest.Tenant, d)
	require.NoError(t, err)
}

func (b *bundle) runsOf(t *testing.T, chain string) []chains.Record {
	t.Helper()
	list, err := b.chains.Runs(t.Context(), storetest.Tenant.TenantID, chain, chains.RunID{}, 100)
	require.NoError(t, err)
	return list
}

func TestARunStartsChainsByItsOutcome(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, "cleanup", "run")
	b.put(t, "publish", "response", "endpoint")
	e := b.starter(t, "failed=cleanup", "succeeded=publish", "succeeded=gone", "failed=publish")
	failed := b.finish(t, runs.Outcome{Status: runs.Failed, Reason: runs.HTTPStatus, StatusCode: 500})
	require.Len(t, b.runsOf(t, "cleanup"), 1)
	require.Empty(t, b.runsOf(t, "publish"), "there is no response")
	cleanup := b.runsOf(t, "cleanup")[0]
	require.Equal(t, "run "+failed.ID.String(), cleanup.RequestedBy)
	var input struct {
		Run struct {
			ID, Status, ReasonCode string
			StatusCode             int
		}
	}
	require.NoError(t, json.Unmarshal(cleanup.Input, &input))
	require.Equal(t, failed.ID.String(), input.Run.ID)
	require.Equal(t, "http_status", input.Run.ReasonCode)
	require.Equal(t, 500, input.Run.StatusCode)
	story, err := b.Runs.Events(t.Context(), storetest.Tenant.TenantID, failed.ID)
	require.NoError(t, err)
	why := map[runs.EventKind]string{}
	for _, event := range story {
		why[event.Kind] = event.Why
	}
	require.Equal(t, "failed=cleanup: "+cleanup.ID.String(), why[runs.EventChainStarted])
	require.Contains(t, why[runs.EventChainRefused], "failed=publish: ")
	require.Contains(t, why[runs.EventChainRefused], "input.response")

	b.finish(t, runs.Outcome{Status: runs.Succeeded, Reason: runs.HTTPStatus, StatusCode: 200, Body: []byte(`{"n": 1}`), BodyDigest: 1})
	require.Len(t, b.runsOf(t, "publish"), 1)
	require.JSONEq(t, `{"response": {"n": 1}, "endpoint": {"id": "`+e.ID.String()+`"}}`, string(b.runsOf(t, "publish")[0].Input))
	require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM chain_starts"))
	require.InDelta(t, 2, b.counter(t, "rubato_chains_starts_total", "started"), 0)
	require.InDelta(t, 2, b.counter(t, "rubato_chains_starts_total", "refused"), 0)
}

func TestAChangedResponseStartsAChain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, "refresh")
	b.starter(t, "changed=refresh")
	for i, step := range []struct {
		digest  uint64
		started int
	}{{7, 0}, {7, 0}, {8, 1}, {8, 1}, {7, 2}} {
		b.finish(t, runs.Outcome{Status: runs.Succeeded, Reason: runs.HTTPStatus, StatusCode: 200, BodyDigest: step.digest})
		require.Len(t, b.runsOf(t, "refresh"), step.started, i)
	}
}

// TestAStepStartsNoChain has a step whose endpoint would start the chain of the step again.
func TestAStepStartsNoChain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.Register(t, func(s *endpoints.Spec) {
		s.Method, s.StartAt, s.StartChains = "POST", b.now.Add(24*time.Hour), []string{"succeeded=order"}
	})
	r, _ := b.end(t, b.start(t, chains.Definition{Name: "order", Steps: []chains.StepSpec{{Name: "a", EndpointID: e.ID.String()}}}))
	require.Equal(t, chains.Succeeded, r.Status)
	found, err := b.advancer.StartNext(t.Context())
	require.NoError(t, err)
	require.True(t, found)
	require.Len(t, b.runsOf(t, "order"), 1)
}

// TestAStepCannotStartAChain has a step on an endpoint whose runs start a chain.
func TestAStepCannotStartAChain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.Register(t, func(s *endpoints.Spec) { s.URL, s.Method, s.StartAt = "chain:order", "POST", b.now.Add(24*time.Hour) })
	r, steps := b.end(t, b.start(t, chains.Definition{Name: "order", Steps: []chains.StepSpec{{Name: "a", EndpointID: e.ID.String()}}}))
	require.Equal(t, chains.Failed, r.Status)
	require.Contains(t, steps["a"].Error, "starts a chain")
}
