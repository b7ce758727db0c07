package openai_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"rubato/internal/planner"
	"rubato/internal/planner/openai"
	"rubato/internal/planner/openai/openaitest"
	"rubato/internal/waittest"
)

// flood returns an answer with a number of calls.
func flood(calls int) openaitest.Answer {
	list := make([]openaitest.Invocation, calls)
	for i := range list {
		list[i] = tighten()
	}
	return openaitest.Tools(list...)
}

// TestNonsenseChangesNothing: after a nonsensical answer of the service or the model, and at most
// one retry, the session fails without a proposal.
func TestNonsenseChangesNothing(t *testing.T) {
	t.Parallel()
	whole := `{"choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function",` +
		`"function":{"name":"propose_interval","arguments":"{\"interval_seconds\":30,\"ttl_minutes\":5,\"reason\":\"r\"}"}}]}}]}`
	for name, c := range map[string]struct {
		answer   openaitest.Answer
		requests int
	}{
		"text":             {openaitest.Text("I would run it every second."), 2},
		"text like a call": {openaitest.Text(`{"tool_calls":[{"function":{"name":"propose_interval","arguments":"{}"}}]}`), 2},
		"refusal":          {openaitest.Refusal("I cannot help with that."), 2},
		"filtered":         {openaitest.Filtered(), 2},
		"empty choices":    {openaitest.Empty(), 1},
		"empty body":       {openaitest.Raw(""), 1},
		"null":             {openaitest.Raw("null"), 1},
		"a page":           {openaitest.Raw("<html>It works!</html>"), 1},
		"truncated":        {openaitest.Raw(whole[:len(whole)-40]), 1},
		"cut":              {openaitest.Cut(whole), 1},
		"wrong types":      {openaitest.Raw(`{"choices":{"message":7},"usage":"much"}`), 1},
		"calls of a wrong type": {openaitest.Raw(
			`{"choices":[{"message":{"role":"assistant","tool_calls":[{"function":{"name":{},"arguments":{}}}]}}]}`), 1},
		"500 calls":         {flood(500), 1},
		"16 calls":          {flood(planner.MaxCalls + 1), 1},
		"only unknown":      {openaitest.Tools(openaitest.Invoke("run_shell", map[string]any{"cmd": "id"})), 2},
		"half a call":       {openaitest.Exhausted(tighten()), 2},
		"an error with 200": {openaitest.Raw(`{"error":{"message":"no such model","type":"x"}}`), 1},
		"an old function":   {openaitest.Raw(`{"choices":[{"message":{"role":"assistant","function_call":{"name":"propose_interval","arguments":"{}"}}}]}`), 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, openaitest.Always(c.answer))
			verdict, err := b.advise(t)
			require.Error(t, err)
			require.Zero(t, verdict)
			require.Zero(t, b.desk.proposals())
			require.Len(t, b.service.Calls(), c.requests)
			require.Zero(t, b.budget.held)
		})
	}
}

func TestAnEndlessAnswerIsNotRead(t *testing.T) {
	t.Parallel()
	const much = 200 << 20
	for _, status := range []int{http.StatusOK, http.StatusInternalServerError} {
		var sent atomic.Int64
		b := setup(t, openaitest.Always(openaitest.Huge(status, much, &sent)))
		_, err := b.advise(t)
		failure := new(openai.Failure)
		require.ErrorAs(t, err, &failure)
		require.Equal(t, openai.TooLarge, failure.Kind)
		require.Less(t, sent.Load(), int64(10<<20), "what was not read was not sent either, but for what the connection holds")
	}
}

func TestASlowServiceEndsWithTheSession(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]openaitest.Answer{
		"no answer": openaitest.Hang(), "a byte at a time": openaitest.Drip(time.Millisecond),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, openaitest.Always(answer), func(c *openai.Config) { c.Timeout = 200 * time.Millisecond })
			begun := time.Now()
			_, err := b.advise(t)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			var unavailable *planner.UnavailableError
			require.ErrorAs(t, err, &unavailable)
			require.Less(t, time.Since(begun), 10*time.Second)
			require.Zero(t, b.budget.held, "what it may have cost is settled, past the end of the session")
			require.Positive(t, b.desk.tokens(), "a service that was asked may charge for it")
		})
	}
}

func TestASessionEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	b := setup(t, openaitest.Always(openaitest.Hang()))
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err := b.advisor.Advise(ctx, aCase(), b.desk)
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, b.budget.held)
}

func TestRateLimitedServiceIsNotCalledUntilItsRetryAfter(t *testing.T) {
	t.Parallel()
	for asked, want := range map[string]struct{ least, most time.Duration }{
		"1":                             {time.Second, 1250 * time.Millisecond},
		"86400":                         {9 * time.Minute, 10 * time.Minute},
		"999999999999999999999":         {9 * time.Minute, 10 * time.Minute},
		"soon":                          {30 * time.Second, 38 * time.Second},
		"-5":                            {30 * time.Second, 38 * time.Second},
		"":                              {30 * time.Second, 38 * time.Second},
		"Wed, 21 Oct 2015 07:28:00 GMT": {time.Second, 1250 * time.Millisecond},
	} {
		t.Run(asked, func(t *testing.T) {
			t.Parallel()
			b := setup(t, openaitest.Always(openaitest.RateLimited(asked)))
			begun := time.Now()
			for range 5 {
				_, err := b.advise(t)
				var unavailable *planner.UnavailableError
				require.ErrorAs(t, err, &unavailable)
				require.GreaterOrEqual(t, unavailable.RetryIn+time.Since(begun), want.least)
				require.LessOrEqual(t, unavailable.RetryIn, want.most)
			}
			windows, calls := 1+int(time.Since(begun)/want.least), len(b.service.Calls())
			require.LessOrEqual(t, calls, windows, "one request for each window")
			require.Equal(t, calls, b.desk.calls, "nothing is read for a session that cannot be held")
			require.Zero(t, b.desk.tokens())
			require.Zero(t, b.budget.held)
		})
	}
}

func TestRecoveredServiceIsCalledAgain(t *testing.T) {
	t.Parallel()
	b := setup(t, openaitest.Sequence(openaitest.RateLimited("1"), openaitest.Tools(openaitest.Submission("calm"))))
	_, err := b.advise(t)
	require.Error(t, err)
	waittest.Until(t, func() bool {
		_, err := b.advise(t)
		return err == nil
	})
	calls := b.service.Calls()
	require.Len(t, calls, 2)
	require.GreaterOrEqual(t, calls[1].At.Sub(calls[0].At), time.Second)
}

// A trial request ends each rest; its answer ends the row.
func TestFailingServiceOpensBreaker(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer openaitest.Answer
		calls  int // before the rest
	}{
		"500":      {openaitest.Status(http.StatusInternalServerError, openaitest.Problem("server_error", "oops")), 3},
		"502":      {openaitest.Status(http.StatusBadGateway, "<html>"), 3},
		"401":      {openaitest.Status(http.StatusUnauthorized, openaitest.Problem("invalid_api_key", "no")), 1},
		"404":      {openaitest.Status(http.StatusNotFound, openaitest.Problem("model_not_found", "no")), 3},
		"nonsense": {openaitest.Raw("<html>"), 3},
		"redirect": {openaitest.Status(http.StatusFound, "", "Location", "https://example.com/"), 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, openaitest.Always(c.answer), func(c *openai.Config) { c.Cooldown = time.Second })
			var last error
			for range 20 {
				_, last = b.advise(t)
				require.Error(t, last)
			}
			require.Len(t, b.service.Calls(), c.calls)
			require.Equal(t, openai.BreakerOpen, kindOf(t, last))
			var unavailable *planner.UnavailableError
			require.ErrorAs(t, last, &unavailable)
			require.Positive(t, unavailable.RetryIn)

			b.service.Script(openaitest.Always(openaitest.Tools(openaitest.Submission("calm"))))
			waittest.Until(t, func() bool {
				_, err := b.advise(t)
				return err == nil
			})
			calls := b.service.Calls()
			require.Len(t, calls, c.calls+1)
			require.GreaterOrEqual(t, calls[c.calls].At.Sub(calls[c.calls-1].At), time.Second)
			_, err := b.advise(t)
			require.NoError(t, err, "one answer ends the rest")
		})
	}
}

// Of one endpoint, of one tenant and of the service.
func TestFailedTrialStartsAnotherRest(t *testing.T) {
	t.Parallel()
	for name, account := range map[string]func(n int) planner.Account{
		"Endpoint": func(int) planner.Account { return accountOf(1, 1) },
		"Tenant":   func(n int) planner.Account { return accountOf(1, byte(n)) },
		"Service":  func(n int) planner.Account { return accountOf(byte(n), 1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, openaitest.Always(openaitest.Status(http.StatusInternalServerError, "")), func(c *openai.Config) { c.Cooldown = 300 * time.Millisecond })
			asked := 0
			waittest.Until(t, func() bool {
				asked++
				require.Error(t, b.ask(t, account(asked)))
				return len(b.service.Calls()) == 6
			})
			calls := b.service.Calls()
			for i := 3; i < len(calls); i++ {
				require.GreaterOrEqual(t, calls[i].At.Sub(calls[i-1].At), 300*time.Millisecond)
			}
		})
	}
}

// TestAPIKeyAppearsInNoOutput has a service that repeats the key and the prompt in every way that
// it can. The key reaches no session, error, log or metric.
func TestAPIKeyAppearsInNoOutput(t *testing.T) {
	t.Parallel()
	echo := func(status int, body string) openaitest.Script {
		return func(c openaitest.Call) openaitest.Answer {
			return openaitest.Status(status, strings.ReplaceAll(body, "KEY", c.Header.Get("Authorization")))
		}
	}
	for name, script := range map[string]openaitest.Script{
		"error":        echo(http.StatusUnauthorized, openaitest.Problem("invalid_api_key", "Incorrect API key provided: KEY")),
		"error's code": echo(http.StatusBadRequest, `{"error":{"message":["KEY"],"code":"KEY","param":"KEY","type":"KEY"}}`),
		"body":         echo(http.StatusBadGateway, "upstream sent KEY"),
		"garbage":      echo(http.StatusOK, "KEY"),
		"redirect": func(c openaitest.Call) openaitest.Answer {
			return openaitest.Status(http.StatusTemporaryRedirect, "", "Location", "http://127.0.0.1:1/?"+c.Header.Get("Authorization"))
		},
		"text": func(c openaitest.Call) openaitest.Answer { return openaitest.Text(c.Header.Get("Authorization")) },
		"tool": func(c openaitest.Call) openaitest.Answer {
			return openaitest.Tools(openaitest.Invoke(c.Header.Get("Authorization"), map[string]any{c.Header.Get("Authorization"): theKey}))
		},
		"reason": func(c openaitest.Call) openaitest.Answer {
			if c.Turn() == 0 {
				return openaitest.Tools(openaitest.Invoke("clear_hints", map[string]any{"reason": c.Header.Get("Authorization")}))
			}
			return openaitest.Tools(openaitest.Submission(c.Header.Get("Authorization")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, script)
			verdict, err := b.advise(t)
			said := verdict.Reasoning + b.desk.everything()
			if err != nil {
				said += err.Error()
			}
			require.NotContains(t, said, theKey)
			require.NotContains(t, said, theKey[3:12])
			for _, call := range b.service.Calls() {
				require.NotContains(t, string(call.Body), theKey[3:12])
			}
		})
	}
	plain := setup(t, func(c openaitest.Call) openaitest.Answer {
		return openaitest.Tools(openaitest.Submission(c.Header.Get("Authorization")), openaitest.Invoke(c.Header.Get("Authorization"), nil))
	}, func(c *openai.Config) { c.Key = "wordlike" })
	verdict, err := plain.advise(t)
	require.NoError(t, err)
	require.NotContains(t, verdict.Reasoning+plain.desk.everything(), "wordlike", "nor where it does not look like one")
	b := setup(t, openaitest.Always(openaitest.Empty()), func(c *openai.Config) { c.BaseURL = "http://user:" + theKey + "@127.0.0.1:1/" + theKey })
	_, err = b.advise(t)
	require.Error(t, err)
	require.NotContains(t, err.Error(), theKey)
}

func TestSpentBudgetSendsNoRequest(t *testing.T) {
	t.Parallel()
	b := setup(t, openaitest.Always(openaitest.Tools(openaitest.Submission("calm"))))
	b.budget.left = 500
	_, err := b.advise(t)
	require.ErrorIs(t, err, planner.ErrOverBudget)
	require.Empty(t, b.service.Calls())
	require.EqualValues(t, 500, b.budget.left)
}

func TestMissingUsageIsChargedAsReserved(t *testing.T) {
	t.Parallel()
	b := setup(t, openaitest.Always(openaitest.Uncounted(openaitest.Submission("calm"))))
	_, err := b.advise(t)
	require.NoError(t, err)
	require.Equal(t, b.budget.most, b.desk.tokens())
	for _, usage := range []openaitest.Usage{{Prompt: -5, Completion: 3}, {Prompt: 1 << 40, Completion: 1}, {Prompt: 5, Completion: -1}} {
		b := setup(t, openaitest.Always(openaitest.ToolsFor(usage, openaitest.Submission("calm"))))
		_, err := b.advise(t)
		require.NoError(t, err)
		require.Equal(t, b.budget.most, b.desk.tokens(), "what cannot be is not believed")
	}
}

// kindOf returns the kind of the failure that err is.
func kindOf(t *testing.T, err error) openai.Kind {
	t.Helper()
	failure := new(openai.Failure)
	require.ErrorAs(t, err, &failure)
	return failure.Kind
}

// value returns the value of a gauge, with the labels that are given.
func value(t *testing.T, b *bundle, name string, labels ...string) float64 {
	t.Helper()
	families, err := b.registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (len(labels) == 0 || m.GetLabel()[0].GetValue() == labels[0]) {
				return m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

func TestMetricsNameEveryValueFromTheStart(t *testing.T) {
	t.Parallel()
	b := setup(t, openaitest.Always(openaitest.Empty()))
	count, err := testutil.GatherAndCount(b.registry, "rubato_planner_model_requests_total", "rubato_planner_model_refusals_total")
	require.NoError(t, err)
	require.Equal(t, 9+5, count)
}
