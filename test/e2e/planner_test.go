package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/client"
	"rubato/internal/devpg/devpgtest"
)

// startPlanningDev starts `rubato dev` with a planner that looks without a pause and may change a
// tempo every second. settings come on top.
func startPlanningDev(t *testing.T, settings ...string) *server {
	t.Helper()
	dataDir := devpgtest.Dir(t)
	env := []string{
		"RUBATO_PLANNER_POLL=50ms", "RUBATO_PLANNER_SPACING=1s", "RUBATO_PLANNER_DWELL=1s", "RUBATO_PLANNER_ANALYSES_PER_HOUR=3600",
		"RUBATO_PLANNER_CHANGES_PER_HOUR=3600",
	}
	env = append(env, settings...)
	p := start(t, t.TempDir(), env, "rubato", "dev", "--listen", "127.0.0.1:0", "--data-dir", dataDir)
	p.await(t, "ready")
	return &server{process: p, api: credentials(t, dataDir), dataDir: dataDir}
}

// sessions returns the analyses of an endpoint, the newest first.
func (a *api) sessions(t *testing.T, id string) []client.PlannerSession {
	t.Helper()
	return read[client.PlannerSessionList](t)(a.ListPlannerSessions(t.Context(), &client.ListPlannerSessionsParams{EndpointID: &id})).Items
}

// TestTempoFollowsALoad needs no API key, because the filter learns from the answers alone.
func TestTempoFollowsALoad(t *testing.T) {
	t.Parallel()
	var rising atomic.Bool
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if rising.Load() { // A change every two seconds. One at each request would be noise.
			_, _ = fmt.Fprintf(w, `{"queue":%d}`, time.Now().Unix()/2)
			return
		}
		_, _ = fmt.Fprint(w, `{"queue":0}`)
	}))
	t.Cleanup(target.Close)
	rising.Store(true)
	dev := startPlanningDev(t)
	e := dev.register(t, client.EndpointSpec{
		Planner: acting(),
		Name:    "load", URL: target.URL, BaselineIntervalMs: new(int64(3000)), MinIntervalMs: new(int64(1000)), MaxIntervalMs: new(int64(6000)),
	})

	gap := func() time.Duration {
		over := dev.finished(t, e.ID)
		if len(over) < 2 || over[0].Source != "change-rate" && over[0].Source != "clamped-min" {
			return 0
		}
		return over[0].ScheduledFor.Sub(over[1].ScheduledFor)
	}
	eventually(t, "a faster tempo while the answers change", func() bool { return gap() > 0 && gap() < 2500*time.Millisecond })
	rising.Store(false)
	eventually(t, "a slower tempo when the answers rest", func() bool { return gap() > 2800*time.Millisecond })
	require.Nil(t, dev.endpoint(t, e.ID).Hints.Interval, "no hint is needed")
}

// A hint of the planner takes effect at once: a run that it asks for starts within a second.
func TestAHintOfThePlannerTakesEffectAtOnce(t *testing.T) {
	t.Parallel()
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/orders" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(target.Close)
	dev := startPlanningDev(t)
	mend := dev.register(t, client.EndpointSpec{
		Planner: acting(),
		Name:    "mend", URL: target.URL + "/mend", BaselineIntervalMs: new(int64(3_600_000)), StartAt: new(time.Now().Add(time.Hour)),
		Labels: &map[string]string{"group": "shop", "role": "recovery"},
	})
	dev.register(t, client.EndpointSpec{
		Planner: acting(),
		Name:    "orders", URL: target.URL + "/orders", BaselineIntervalMs: new(int64(5000)), Labels: &map[string]string{"group": "shop"},
	})

	run := dev.awaitRuns(t, mend.ID, 1)[0]

	require.Equal(t, client.Source("ai-oneshot"), run.Source)
	for _, s := range dev.sessions(t, mend.ID) {
		if s.Outcome != "acted" {
			continue
		}
		require.Contains(t, s.Reasoning, "orders of its group fails")
		felt := run.StartedAt.Sub(s.FinishedAt)
		t.Logf("felt after %s", felt)
		require.Less(t, felt, time.Second)
		return
	}
	require.Fail(t, "no session asked for the run")
}

// An endpoint with a role in a group acts as soon as another endpoint of the group fails, long
// before its scheduled analysis. Its session names the cause.
func TestAFailingSiblingCallsForHelpAtOnce(t *testing.T) {
	t.Parallel()
	var failing atomic.Bool
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if failing.Load() && r.URL.Path == "/orders" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(target.Close)
	// Scheduled analyses are ten minutes apart or more.
	dev := startPlanningDev(t, "RUBATO_PLANNER_ANALYSES_PER_HOUR=12")
	member := func(name, role string, every time.Duration) string {
		labels := map[string]string{"group": "shop"}
		if role != "" {
			labels["role"] = role
		}
		return dev.register(t, client.EndpointSpec{
			Planner: acting(),
			Name:    name, URL: target.URL + "/" + name, BaselineIntervalMs: new(every.Milliseconds()), MinIntervalMs: new(int64(1000)), Labels: &labels,
		}).ID
	}
	health, orders := member("health", "health", 8*time.Second), member("orders", "", time.Second)
	for _, id := range []string{health, orders} {
		eventually(t, "a first analysis", func() bool { return len(dev.sessions(t, id)) > 0 })
	}

	failing.Store(true)
	var s client.PlannerSession
	eventually(t, "an analysis for the group", func() bool {
		for _, s = range dev.sessions(t, health) {
			if s.Trigger == client.PlannerTriggerGroupChanged {
				return true
			}
		}
		return false
	})

	require.Equal(t, client.PlannerOutcome("acted"), s.Outcome, s.Reasoning)
	require.Contains(t, s.Reasoning, "orders of its group fails")
	require.Equal(t, "planner:heuristic", dev.endpoint(t, health).Hints.Interval.Author)
}

// acting permits the planner of an endpoint to act.
func acting() *client.PlannerAuthority { return new(client.PlannerAuthorityAct) }
