package openai_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/planner"
	"rubato/internal/planner/openai"
	"rubato/internal/planner/openai/openaitest"
	"rubato/internal/waittest"
)

func accountOf(tenant, endpoint byte) planner.Account {
	return planner.Account{TenantID: [16]byte{15: tenant}, EndpointID: endpoints.ID{endpoint}}
}

// ask runs one session about an endpoint of a tenant.
func (b *bundle) ask(t *testing.T, of planner.Account) error {
	t.Helper()
	c := aCase()
	c.Account = of
	_, err := b.advisor.Advise(t.Context(), c, b.desk)
	return err
}

// calm is the script of a healthy service.
func calm() openaitest.Script {
	return openaitest.Always(openaitest.Tools(openaitest.Submission("calm")))
}

// failing returns the failures of a service that a request itself may have caused.
func failing() map[string]openaitest.Answer {
	return map[string]openaitest.Answer{
		"500":       openaitest.Status(http.StatusInternalServerError, openaitest.Problem("server_error", "oops")),
		"503":       openaitest.Status(http.StatusServiceUnavailable, ""),
		"504":       openaitest.Status(http.StatusGatewayTimeout, "<html>"),
		"no answer": openaitest.Hang(),
	}
}

// A failing request opens the breaker of its endpoint, then that of its tenant, and never that of
// another tenant.
func TestFailuresOfOneTenantStopNoOtherTenant(t *testing.T) {
	t.Parallel()
	for name, answer := range failing() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, openaitest.Always(answer), func(c *openai.Config) { c.Cooldown, c.Timeout = time.Hour, 100*time.Millisecond })
			for range 3 {
				require.NotEqual(t, openai.BreakerOpen, kindOf(t, b.ask(t, accountOf(1, 1))))
			}
			require.Equal(t, openai.BreakerOpen, kindOf(t, b.ask(t, accountOf(1, 1))))
			require.InDelta(t, 1, value(t, b, "rubato_planner_model_open_breakers", "endpoint"), 0)
			require.InDelta(t, 0, value(t, b, "rubato_planner_model_open_breakers", "tenant"), 0, "one endpoint is no reason")
			require.NotEqual(t, openai.BreakerOpen, kindOf(t, b.ask(t, accountOf(1, 2))), "its sibling is asked")
			require.Equal(t, openai.BreakerOpen, kindOf(t, b.ask(t, accountOf(1, 3))), "two endpoints of a tenant are one")
			require.InDelta(t, 1, value(t, b, "rubato_planner_model_open_breakers", "tenant"), 0)
			require.InDelta(t, 0, value(t, b, "rubato_planner_model_breaker_open"), 0, "the service is not at fault as far as is known")

			b.service.Script(calm())
			require.NoError(t, b.ask(t, accountOf(2, 1)), "another tenant goes on")
		})
	}
}

// The same failure for two tenants within the window opens the breaker of the service.
func TestFailuresOfTwoTenantsRestTheService(t *testing.T) {
	t.Parallel()
	for name, answer := range failing() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, openaitest.Always(answer), func(c *openai.Config) { c.Cooldown, c.Timeout = time.Hour, 100*time.Millisecond })
			require.Error(t, b.ask(t, accountOf(1, 1)))
			require.Error(t, b.ask(t, accountOf(1, 2)))
			b.service.Script(calm())
			require.NoError(t, b.ask(t, accountOf(3, 1)), "an answer ends the row")
			b.service.Script(openaitest.Always(answer))
			require.Error(t, b.ask(t, accountOf(1, 3)))
			require.Error(t, b.ask(t, accountOf(2, 1)))
			require.InDelta(t, 0, value(t, b, "rubato_planner_model_breaker_open"), 0)
			require.Error(t, b.ask(t, accountOf(2, 2)))
			require.InDelta(t, 1, value(t, b, "rubato_planner_model_breaker_open"), 0)
			b.service.Script(calm())
			require.Equal(t, openai.BreakerOpen, kindOf(t, b.ask(t, accountOf(3, 1))))
		})
	}
}

// TestAccountErrorsOpenTheBreakerAtOnce: statuses about the key or the account open the breaker of
// the service at once, because all tenants share them.
func TestAccountErrorsOpenTheBreakerAtOnce(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]openaitest.Answer{
		"401": openaitest.Status(http.StatusUnauthorized, openaitest.Problem("invalid_api_key", "no")),
		"402": openaitest.Status(http.StatusPaymentRequired, openaitest.Problem("insufficient_credits", "no")),
		"403": openaitest.Status(http.StatusForbidden, openaitest.Problem("forbidden", "no")),
		"429": openaitest.RateLimited("60"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, openaitest.Always(answer), func(c *openai.Config) { c.Cooldown = time.Hour })
			require.Error(t, b.ask(t, accountOf(1, 1)))
			require.InDelta(t, 1, value(t, b, "rubato_planner_model_breaker_open"), 0)
			b.service.Script(calm())
			require.Error(t, b.ask(t, accountOf(2, 1)))
			require.Len(t, b.service.Calls(), 1)
		})
	}
}

// A 403 opens only the tenant's breaker if the service answers other tenants. It is about the
// prompt then, as 400 and nonsense are, and not about the key.
func TestARefusedPromptRestsItsOwnTenant(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusBadRequest, http.StatusForbidden} {
		b := setup(t, calm(), func(c *openai.Config) { c.Cooldown = time.Hour })
		require.NoError(t, b.ask(t, accountOf(3, 1)))
		b.service.Script(openaitest.Always(openaitest.Status(status, openaitest.Problem("content_filter", "no"))))
		for n := range byte(3) {
			require.Equal(t, openai.Denied, kindOf(t, b.ask(t, accountOf(1, n+1))))
		}
		b.service.Script(openaitest.Always(openaitest.Raw("<html>")))
		for range 3 {
			require.Equal(t, openai.Unreadable, kindOf(t, b.ask(t, accountOf(2, 1))))
		}

		b.service.Script(calm())
		require.Equal(t, openai.BreakerOpen, kindOf(t, b.ask(t, accountOf(1, 9))), "each endpoint of the tenant that was denied")
		require.Equal(t, openai.BreakerOpen, kindOf(t, b.ask(t, accountOf(2, 1))))
		require.NoError(t, b.ask(t, accountOf(2, 2)), "another endpoint of the same tenant")
		require.NoError(t, b.ask(t, accountOf(3, 1)))
		require.InDelta(t, 0, value(t, b, "rubato_planner_model_breaker_open"), 0, "the service is well")
	}
}

// After the rest of a breaker, one of the waiting sessions makes a trial request.
func TestOneTrialRequestFollowsARest(t *testing.T) {
	t.Parallel()
	const rest = time.Second
	b := setup(t, openaitest.Always(openaitest.Status(http.StatusInternalServerError, "")), func(c *openai.Config) { c.Cooldown, c.Timeout = rest, 300*time.Millisecond })
	for n := range byte(3) {
		require.Error(t, b.ask(t, accountOf(1, n+1)))
	}
	b.service.Script(openaitest.Always(openaitest.Hang()))
	over := time.Now().Add(rest)
	waittest.Until(t, func() bool { return time.Now().After(over) })
	var all sync.WaitGroup
	for n := range byte(8) {
		all.Go(func() { _ = b.ask(t, accountOf(1, n+1)) })
	}
	all.Wait()
	require.Len(t, b.service.Calls(), 4)
}
