package dispatch_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/dispatch/request"
	"rubato/internal/egress"
	"rubato/internal/egress/egresstest"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/runs"
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/items"
)

// tester returns what tests endpoints on the database of the bundle.
func (s *secretStores) tester(t *testing.T, rules egress.Rules) *request.Tester {
	t.Helper()
	client := egress.New(egress.Config{Rules: rules})
	made := request.NewTester(request.TesterConfig{
		Tests: items.NewTests(endpointstore.NewStates(s.db, 0)), Egress: client, Secrets: s.vault, Logger: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(func() { made.Close(); client.Close() })
	return made
}

func onLoopback() egress.Rules {
	return egress.Rules{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
}

// draft returns an endpoint that is not stored.
func (b *bundle) draft(t *testing.T, url string, edit func(*endpoints.Spec)) *endpoints.Endpoint {
	t.Helper()
	spec := endpoints.Defaults()
	spec.Name, spec.URL, spec.BaselineInterval = "draft", url, time.Hour
	edit(&spec)
	e, err := b.service.Draft(tenant, spec)
	require.NoError(t, err)
	return e
}

// TestATestSendsTheRequestOfARunAndStoresNothing renders, signs and judges a request like that of a
// run, with its secrets masked. The schedule does not change.
func TestATestSendsTheRequestOfARunAndStoresNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.safe(t)
	s.put(t, "token", canary)
	s.put(t, "pin", "q7")
	_, hook := s.key(t)
	target := egresstest.Start(t, egresstest.Answer("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Echo: "+canary+
		"\r\nSet-Cookie: a=b\r\nX-Long: "+strings.Repeat("x", 4000)+"\r\nContent-Length: 56\r\n\r\n"+
		`{"state":"down","mine":"`+canary+`","yours":"ab"}`+strings.Repeat(" ", 56-len(`{"state":"down","mine":"`+canary+`","yours":"ab"}`))))
	e := b.register(t, target, func(spec *endpoints.Spec) {
		signed(spec)
		spec.Body = `{"run":"{{run.id}}","pin":"{{secret "pin"}}"}`
		spec.Auth = &endpoints.Auth{Type: endpoints.AuthBearer, Token: `{{secret "token"}}`}
		spec.SuccessRules = []endpoints.AnswerRule{{Type: "json", JSONPath: "$.state", Value: "up"}}
		spec.Redact = []endpoints.RedactRule{{JSONPath: "$.yours"}}
	})
	before := b.state(t, e)

	result, err := s.tester(t, onLoopback()).Test(t.Context(), tenant, e)

	require.NoError(t, err)
	sent := target.Requests()[0]
	require.Equal(t, "Bearer "+canary, sent.Header.Get("Authorization"))
	require.NoError(t, hook.Verify(sent.Body, sent.Header))
	require.Equal(t, "true", sent.Header.Get("Rubato-Test"))
	require.Equal(t, result.ID.String(), sent.Header.Get("Rubato-Run-Id"))
	require.Equal(t, result.ID.String(), sent.Header.Get("Idempotency-Key"))
	require.Empty(t, sent.Header.Get("Rubato-Fence"), "there is no claim")

	require.Equal(t, runs.SuccessRuleFailed, result.Outcome.Reason, result.Outcome.Error)
	require.Equal(t, 0, result.BrokenRule)
	require.Equal(t, 200, result.Outcome.StatusCode)
	require.Contains(t, string(result.Outcome.Body), `"state":"down"`)
	require.NotContains(t, string(result.Outcome.Body), canary)
	require.NotContains(t, string(result.Outcome.Body), `"ab"`)
	require.Equal(t, []string{"[secret]"}, result.Answer["X-Echo"])
	require.Equal(t, []string{"***"}, result.Answer["Set-Cookie"])
	require.Len(t, result.Answer["X-Long"][0], 256)
	require.Equal(t, []string{"***"}, result.Request.Header["Authorization"])
	require.Contains(t, string(result.Request.Body), result.ID.String())
	require.NotContains(t, string(result.Request.Body), "q7", "also a secret that is too short to be found in answers")

	require.Equal(t, before, b.state(t, e))
	require.Zero(t, query[int](t, b, "SELECT count(*) FROM runs"))
	require.Zero(t, query[int](t, b, "SELECT count(*) FROM live_runs"))
	require.Equal(t, result.ID.String(), query[string](t, b, "SELECT after->>'testRunId' FROM audit_log WHERE action = 'test' AND object_id = $1", e.ID.String()))
}

// TestUnstoredEndpointsAreTestedUnderTheSameRules applies the egress policy, requires the secrets,
// and checks the audit log.
func TestUnstoredEndpointsAreTestedUnderTheSameRules(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.safe(t)
	target := answering(t)
	result, err := s.tester(t, egress.Rules{}).Test(t.Context(), tenant, b.draft(t, target.URL(), func(*endpoints.Spec) {}))
	require.NoError(t, err)
	require.Equal(t, runs.EgressDenied, result.Outcome.Reason)
	require.Nil(t, result.Request)
	require.Empty(t, target.Requests())

	with := func(spec *endpoints.Spec) { spec.Headers = map[string]string{"X-Key": `{{secret "absent"}}`} }
	_, err = s.tester(t, onLoopback()).Test(t.Context(), tenant, b.draft(t, target.URL(), with))
	require.Equal(t, errs.Invalid, errs.CodeOf(err))
	require.Empty(t, target.Requests())
	require.Equal(t, 1, query[int](t, b, "SELECT count(*) FROM audit_log WHERE action = 'test' AND object_kind = 'request' AND after->>'url' = $1", target.URL()))
	require.Zero(t, query[int](t, b, "SELECT count(*) FROM endpoints"))
}

// TestInvalidEndpointsAreNotTested has an endpoint that an earlier release stored and this one
// refuses.
func TestInvalidEndpointsAreNotTested(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := answering(t)
	e := b.draft(t, target.URL(), func(*endpoints.Spec) {})
	e.Spec.Redact = []endpoints.RedactRule{{Pattern: "a{500}"}}
	_, err := b.safe(t).tester(t, onLoopback()).Test(t.Context(), tenant, e)
	require.Equal(t, errs.Conflict, errs.CodeOf(err))
	require.ErrorContains(t, err, "the stored endpoint is invalid; edit it to fix")
	require.ErrorContains(t, err, "redact[0].pattern must have at most")
	require.Empty(t, target.Requests())
}

// TestACanceledTestEndsItsRequest cancels the test while its target does not answer.
func TestACanceledTestEndsItsRequest(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := startGated(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-target.arrived; cancel() }()
	_, err := b.safe(t).tester(t, onLoopback()).Test(ctx, tenant, b.draft(t, target.URL(), func(spec *endpoints.Spec) { spec.Method = http.MethodGet }))
	require.Equal(t, errs.Unavailable, errs.CodeOf(err))
}
