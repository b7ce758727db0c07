package endpoints_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/governor"
)

// chainStarter is the spec of an endpoint that starts a chain.
func chainStarter() endpoints.Spec {
	s := endpoints.Defaults()
	s.Name, s.URL, s.Method, s.BaselineInterval = "nightly", "chain:order", "POST", time.Hour
	return s.Normalize()
}

func TestAnEndpointThatStartsAChainHasOnlyABody(t *testing.T) {
	t.Parallel()
	v := endpoints.NewValidator(targets{})
	s := chainStarter()
	s.Body = `{"order": 17}`
	require.NoError(t, v.Check(endpoints.ID{1}, s))

	s.URL, s.Method, s.Headers, s.Query, s.Sign, s.FollowRedirects, s.Async.Timeout = "chain:", "GET", map[string]string{"X-A": "1"}, map[string]string{"a": "1"}, true, 1, time.Minute
	s.Auth, s.TLS = &endpoints.Auth{Type: "bearer", Token: `{{secret "t"}}`}, &endpoints.TLS{}
	bad := map[string]string{}
	for _, f := range errs.FieldsOf(v.Check(endpoints.ID{1}, s)) {
		bad[f.Field] = f.Code
	}
	require.Equal(t, map[string]string{
		"url": "invalid_value", "method": "invalid_value", "headers": "not_for_chains", "query": "not_for_chains", "auth": "not_for_chains",
		"tls": "not_for_chains", "sign": "not_for_chains", "followRedirects": "not_for_chains", "async.timeoutMs": "not_for_chains",
	}, bad)
	require.Equal(t, "url", v.CheckCall(chainStarter())[0].Field)
}

func TestOutcomesThatStartChains(t *testing.T) {
	t.Parallel()
	v := endpoints.NewValidator(targets{})
	s := chainStarter()
	s.StartChains = []string{"failed=cleanup", "succeeded=publish", "changed=refresh"}
	require.NoError(t, v.Check(endpoints.ID{1}, s))
	s.StartChains = []string{"failed=a", "lost=a", "failed=", "failed=a b", "failed=a"}
	codes := map[string]string{}
	for _, f := range errs.FieldsOf(v.Check(endpoints.ID{1}, s)) {
		codes[f.Field] = f.Code
	}
	require.Equal(t, map[string]string{
		"startChains[1]": "invalid_value", "startChains[2]": "invalid_value", "startChains[3]": "invalid_value", "startChains[4]": "duplicate",
	}, codes)

	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	s.StartChains, s.Retry.MaxAttempts = []string{"failed=cleanup", "succeeded=publish", "changed=refresh"}, 2
	after := func(run endpoints.Finished) []endpoints.ChainStart {
		e := &endpoints.Endpoint{ID: endpoints.ID{1}, TenantID: [16]byte{1}, Version: 1, CreatedAt: now, Spec: s}
		run.Slot, run.StartedAt, run.FinishedAt, run.Source = now, now, now, governor.SourceBaselineInterval
		_, err := e.AfterRun(now.Add(time.Second), run)
		require.NoError(t, err)
		return e.ChainStarts
	}
	succeeded := endpoints.ChainStart{Outcome: endpoints.OutcomeSucceeded, Chain: "publish"}
	require.Equal(t, []endpoints.ChainStart{succeeded}, after(endpoints.Finished{Attempt: 1, Status: "succeeded", Verdict: endpoints.Success}))
	require.Equal(t, []endpoints.ChainStart{succeeded}, after(endpoints.Finished{Attempt: 1, Status: "succeeded", Verdict: endpoints.Success, Unchanged: true, Digest: 7}))
	require.Equal(t, []endpoints.ChainStart{succeeded, {Outcome: endpoints.OutcomeChanged, Chain: "refresh"}},
		after(endpoints.Finished{Attempt: 1, Status: "succeeded", Verdict: endpoints.Success, Digest: 7}))
	require.Equal(t, []endpoints.ChainStart{{Outcome: endpoints.OutcomeFailed, Chain: "cleanup"}}, after(endpoints.Finished{Attempt: 2, Status: "failed", Verdict: endpoints.Failure, Retryable: true}))
	require.Empty(t, after(endpoints.Finished{Attempt: 1, Status: "failed", Verdict: endpoints.Failure, Retryable: true}), "another attempt follows")
	require.Empty(t, after(endpoints.Finished{Attempt: 1, Status: "skipped"}))
}
