package e2e

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/client"
	"rubato/internal/planner/openai/openaitest"
)

// modelKey is the API key of the model service. No output may show it.
const modelKey = "sk-canary-of-the-programs-4Hq7"

// asking returns the settings with which a planner uses a model service.
func asking(service *openaitest.Server) []string {
	return []string{
		"RUBATO_OPENAI_BASE_URL=" + service.URL(), "RUBATO_OPENAI_API_KEY=" + modelKey, "RUBATO_PLANNER_MODEL=scripted-1",
		"RUBATO_PLANNER_PROMPT_PRICE=2", "RUBATO_PLANNER_COMPLETION_PRICE=8", "RUBATO_PLANNER_TIMEOUT=2s",
	}
}

// A model steers the tempo of an endpoint by the target's answers. Its change, reason and cost are
// visible.
func TestAModelSteersATempo(t *testing.T) {
	t.Parallel()
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"queue":{"depth":120},"password":"canary-of-the-target"}`))
	}))
	t.Cleanup(target.Close)
	service := openaitest.New(t, openaitest.Session(
		openaitest.Tools(openaitest.Invoke("get_latest_response", map[string]any{})),
		openaitest.Tools(
			openaitest.Invoke("propose_interval", map[string]any{"interval_seconds": 2, "ttl_minutes": 10, "reason": "the queue is long"}),
			openaitest.Submission("120 orders wait and it fails: watch it"),
		),
	))
	dev := startPlanningDev(t, asking(service)...)
	e := dev.register(t, client.EndpointSpec{
		Planner: acting(),
		Name:    "orders", URL: target.URL, BaselineIntervalMs: new(int64(4000)), MinIntervalMs: new(int64(1000)), MaxIntervalMs: new(int64(60_000)),
		Description: new("Watch it closely while orders pile up."),
	})

	var hinted client.Endpoint
	eventually(t, "a hint of the model", func() bool {
		hinted = dev.endpoint(t, e.ID)
		return hinted.Hints.Interval != nil
	})

	require.Equal(t, "planner:scripted-1", hinted.Hints.Interval.Author)
	require.Equal(t, "the queue is long", hinted.Hints.Interval.Reason)
	eventually(t, "a run at its tempo", func() bool {
		over := dev.finished(t, e.ID)
		return len(over) > 0 && over[0].Source == "ai-interval"
	})
	for _, s := range dev.sessions(t, e.ID) {
		if s.Outcome != "acted" {
			continue
		}
		require.Equal(t, "scripted-1", s.Advisor)
		require.Equal(t, "120 orders wait and it fails: watch it", s.Reasoning)
		require.Positive(t, s.Usage.PromptTokens)
		require.LessOrEqual(t, s.Usage.PromptTokens+s.Usage.CompletionTokens, int64(5000))
	}
	for _, call := range service.Calls() {
		require.NotContains(t, string(call.Body), "canary")
	}
	require.NotContains(t, dev.output(), modelKey)
}

// Runs are neither late nor lost while the model service is down, slow or hostile.
func TestAModelThatIsAwaySlowOrHostileDelaysNoRun(t *testing.T) {
	t.Parallel()
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	t.Cleanup(target.Close)
	hostile := openaitest.Invoke("pause_until", map[string]any{"minutes": 1e9, "reason": "for ever"})
	for name, answer := range map[string]openaitest.Answer{
		"away":    openaitest.Status(http.StatusBadGateway, modelKey),
		"slow":    openaitest.Hang(),
		"full":    openaitest.RateLimited("86400"),
		"hostile": openaitest.Tools(hostile, hostile, hostile),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service := openaitest.New(t, openaitest.Always(answer))
			dev := startPlanningDev(t, asking(service)...)
			e := dev.register(t, client.EndpointSpec{
				Planner: acting(),
				Name:    "tick", URL: target.URL, BaselineIntervalMs: new(int64(everySecond)), MaxIntervalMs: new(int64(everySecond)),
			})
			over := dev.awaitRuns(t, e.ID, 5)
			eventually(t, "a session", func() bool { return len(dev.sessions(t, e.ID)) > 0 })
			for i, run := range over[:len(over)-1] {
				require.Equal(t, time.Second, run.ScheduledFor.Sub(over[i+1].ScheduledFor), "none is lost")
				require.Less(t, run.StartedAt.Sub(run.ScheduledFor), 500*time.Millisecond, "none is late")
			}
			for _, s := range dev.sessions(t, e.ID) {
				require.Contains(t, []client.PlannerOutcome{"failed", "unavailable"}, s.Outcome)
			}
			require.Nil(t, dev.endpoint(t, e.ID).Hints.Interval)
			require.NotContains(t, dev.output(), modelKey)
		})
	}
}
