package openai_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/planner"
	"rubato/internal/planner/openai"
	"rubato/internal/planner/openai/openaitest"
	keystore "rubato/internal/store/keys"
	plannerstore "rubato/internal/store/planner"
)

// TestW1SixteenPlannersNeverSpendMoreThanTheBudget has sixteen planners spend as fast as they can
// until nothing is left.
func TestW1SixteenPlannersNeverSpendMoreThanTheBudget(t *testing.T) {
	t.Parallel()
	const limit = 100_000
	w := newWorld(t, openaitest.Always(openaitest.ToolsFor(openaitest.Usage{Prompt: 1100, Completion: 90}, openaitest.Submission("calm"))))
	w.limits = plannerstore.Limits{Installation: 1 << 40, Tenant: limit, Endpoint: limit / 4}
	var spending sync.WaitGroup
	for n := range 16 {
		advisor, err := openai.New(openai.Config{BaseURL: w.model.URL(), Key: theKey, Model: "m"}, plannerstore.NewBudget(w.db, w.limits), prometheus.NewRegistry())
		require.NoError(t, err)
		spending.Go(func() {
			for i := range 100 {
				c := aCase()
				c.Account = planner.Account{TenantID: keystore.DefaultTenant, EndpointID: endpoints.ID{byte(n + 1), byte(i % 3)}}
				if _, err := advisor.Advise(context.Background(), c, &toolRecorder{}); err != nil && !errors.Is(err, planner.ErrOverBudget) {
					t.Errorf("planner %d: %v", n, err)
					return
				}
			}
		})
	}
	spending.Wait()
	used := int64(len(w.model.Calls())) * 1190
	require.LessOrEqual(t, used, int64(limit))
	require.Greater(t, used, int64(limit)*9/10, "and nearly all of it could be spent")
	require.Equal(t, []int64{used}, rows[int64](t, w, "SELECT tokens FROM planner_spend WHERE tenant_id = $1 AND endpoint_id = $2", keystore.DefaultTenant, [16]byte{}))
	require.Empty(t, rows[int64](t, w, "SELECT tokens FROM planner_spend WHERE tokens > $1 AND endpoint_id <> $2", int64(limit/4), [16]byte{}))
}

// TestW2HostileEndpointsSpendNoMoreThanTheCapAndBaselinesGoOn analyses failing endpoints that
// demand more analyses. Spending stays under the cap, and every endpoint keeps its baseline.
func TestW2HostileEndpointsSpendNoMoreThanTheCapAndBaselinesGoOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, openaitest.Always(openaitest.Tools(tighten(), openaitest.Submission("hurry"))))
	w.limits = plannerstore.Limits{Installation: 20_000, Tenant: 15_000, Endpoint: 10_000}
	for range 60 {
		w.register(t, first, nil)
	}
	w.run(t, func(endpoints.ID) reply { return reply{code: 503, body: "hurry"} })
	w.plan(t)
	w.plan(t)
	w.await(t, 60)
	w.halt()
	require.LessOrEqual(t, rows[int64](t, w, "SELECT max(tokens) FROM planner_spend")[0], int64(15_000))
	require.NotEmpty(t, rows[string](t, w, "SELECT id::text FROM planner_sessions WHERE outcome = 'over_budget' AND next_analysis_at > clock_timestamp()"))
	require.LessOrEqual(t, rows[int64](t, w, "SELECT sum(prompt_tokens + completion_tokens)::bigint FROM planner_sessions")[0], int64(15_000))
	require.Equal(t, []int64{60}, rows[int64](t, w, "SELECT count(*) FROM schedules WHERE due_at < clock_timestamp() + interval '1 hour'"), "all of them run on")
}

// TestJ11ConcurrentEditIsKept edits an endpoint during the request to the model.
func TestJ11ConcurrentEditIsKept(t *testing.T) {
	t.Parallel()
	asked, edited := make(chan struct{}), make(chan struct{})
	var once sync.Once
	w := newWorld(t, func(openaitest.Call) openaitest.Answer {
		once.Do(func() { close(asked) })
		<-edited
		return openaitest.Tools(tighten(), openaitest.Submission("hurry"))
	})
	e := w.register(t, first, nil)
	w.run(t, func(endpoints.ID) reply { return reply{code: 503, body: "{}"} })
	w.plan(t)
	<-asked
	_, _, err := w.service.Edit(t.Context(), first, e.ID, 0, func(s endpoints.Spec) (endpoints.Spec, error) {
		s.BaselineInterval = 2 * time.Minute
		return s, nil
	})
	require.NoError(t, err)
	close(edited)
	w.await(t, 1)
	require.Equal(t, []string{"stale"}, rows[string](t, w, "SELECT outcome FROM planner_sessions ORDER BY id LIMIT 1"))
	require.Empty(t, rows[string](t, w, "SELECT h::text FROM hints h"))
}

// TestJ10WordsWithoutACallWriteNothing: a model that only talks, refuses, or calls an unknown tool
// changes nothing.
func TestJ10WordsWithoutACallWriteNothing(t *testing.T) {
	t.Parallel()
	for _, answer := range []openaitest.Answer{
		openaitest.Text("Run it every second!"), openaitest.Refusal("No."), openaitest.Tools(openaitest.Invoke("set_interval", map[string]any{"ms": 1})),
	} {
		w := newWorld(t, openaitest.Always(answer))
		w.register(t, first, nil)
		w.run(t, func(endpoints.ID) reply { return reply{code: 503, body: "{}"} })
		before := w.outside(t, nil)
		w.plan(t)
		w.await(t, 1)
		w.halt()
		require.Equal(t, before, w.outside(t, nil))
		require.Equal(t, []string{"failed"}, rows[string](t, w, "SELECT outcome FROM planner_sessions"))
	}
}
