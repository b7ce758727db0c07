package httpapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/auditlog"
	"rubato/internal/auth"
	"rubato/internal/chains"
	"rubato/internal/errs"
)

const minimalChain = `{"steps":[{"name":"a","endpointId":"ep_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90"}]}`

// fakeChains are chains of one name with one run, which stays open.
type fakeChains struct{ *memory }

var (
	_ chains.Definitions = fakeChains{}
	_ chains.Records     = fakeChains{}
)

func standingChainRun() chains.RunID { return chains.RunID{1} }

// stuckChainRun is a run after three failed advances.
func stuckChainRun() chains.RunID { return chains.RunID{2} }

func standingChain() (c chains.Chain) {
	if err := json.Unmarshal([]byte(minimalChain), &c.Definition); err != nil {
		panic(err)
	}
	c.Name, c.Version, c.CreatedAt, c.UpdatedAt = "any", 1, now, now
	return c
}

func standingRecord() chains.Record {
	return chains.Record{
		ID: standingChainRun(), Chain: "any", Status: chains.Running, Version: 1, Definition: standingChain().Definition,
		Input: json.RawMessage("{}"), RequestedBy: "tester", CreatedAt: now,
	}
}

// found returns the error of the store, or one for another tenant.
func (s fakeChains) found(tenant [16]byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil && tenant != auth.DefaultTenant() {
		return errs.New(errs.NotFound, "", "there is no such chain")
	}
	return s.err
}

func (s fakeChains) wrote(tenant [16]byte) error {
	err := s.found(tenant)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.writes++
	}
	return err
}

func (s fakeChains) Put(_ context.Context, by auditlog.Actor, _ string, want chains.Want) (chains.Chain, bool, error) {
	c := standingChain()
	d, err := want(&c.Definition)
	if err != nil {
		return c, false, err
	}
	c.Definition = d
	return c, false, s.wrote(by.TenantID)
}

func (s fakeChains) Get(_ context.Context, tenant [16]byte, _ string) (chains.Chain, error) {
	return standingChain(), s.found(tenant)
}

func (s fakeChains) Delete(_ context.Context, by auditlog.Actor, _ string) error {
	return s.wrote(by.TenantID)
}

func (s fakeChains) List(_ context.Context, tenant [16]byte, _ string, _ int) ([]chains.Chain, error) {
	return []chains.Chain{standingChain()}, s.found(tenant)
}

func (s fakeChains) Start(_ context.Context, by auditlog.Actor, _ chains.Started) (chains.Record, bool, error) {
	return standingRecord(), true, s.wrote(by.TenantID)
}

func (s fakeChains) Runs(_ context.Context, tenant [16]byte, _ string, _ chains.RunID, _ int) ([]chains.Record, error) {
	return []chains.Record{standingRecord()}, s.found(tenant)
}

func (s fakeChains) Record(_ context.Context, tenant [16]byte, id chains.RunID) (chains.Record, error) {
	if id != standingChainRun() && id != stuckChainRun() {
		return chains.Record{}, errs.New(errs.NotFound, "", "there is no such chain run")
	}
	return standingRecord(), s.found(tenant)
}

func (s fakeChains) Run(ctx context.Context, tenant [16]byte, id chains.RunID) (chains.Record, []chains.StepRecord, error) {
	r, err := s.Record(ctx, tenant, id)
	if id == stuckChainRun() {
		r.ID, r.Failures, r.RetryAt = id, 3, now
		return r, []chains.StepRecord{
			{Key: chains.Key{Name: "a", Index: chains.Whole}, Elements: map[chains.StepStatus]int{chains.StepFailed: 1, chains.StepWaiting: 9}},
			{Key: chains.Key{Name: "a", Index: 7}, Status: chains.StepFailed},
		}, err
	}
	return r, []chains.StepRecord{{Key: chains.Key{Name: "a", Index: chains.Whole}, Status: chains.StepWaiting}}, err
}

func (s fakeChains) Cancel(_ context.Context, by auditlog.Actor, id chains.RunID) error {
	if id != standingChainRun() {
		return errs.New(errs.NotFound, "", "there is no such chain run")
	}
	return s.wrote(by.TenantID)
}

// TestARunOfAChainShowsItsElementsInSum has a step with more elements than are listed, and an
// advance that failed.
func TestARunOfAChainShowsItsElementsInSum(t *testing.T) {
	t.Parallel()
	s := newService(t)
	run := s.call("GET", "/v1/chain-runs/"+stuckChainRun().String(), "").is(http.StatusOK)
	require.Equal(t, 3.0, run["advanceFailures"])
	require.Equal(t, "2098-11-21T10:00:00Z", run["retryAt"])
	steps := run["steps"].([]any)
	require.Equal(t, map[string]any{"failed": 1.0, "waiting": 9.0}, steps[0].(map[string]any)["elements"])
	require.NotContains(t, steps[1], "elements")
	plain := s.call("GET", "/v1/chain-runs/"+standingChainRun().String(), "").is(http.StatusOK)
	require.NotContains(t, plain, "advanceFailures")
	require.NotContains(t, plain, "retryAt")
	for _, body := range []string{`{"input":{"n":1e200000}}`, `{"input":{"n":"\u0000"}}`} {
		refused := s.call("POST", "/v1/chains/any/run", body)
		require.Less(t, refused.status, http.StatusInternalServerError, body)
	}
	refused := s.call("PUT", "/v1/chains/any", `{"inputs":{"n":{"default":1e200000}},`+minimalChain[1:])
	require.Less(t, refused.status, http.StatusInternalServerError)
}
