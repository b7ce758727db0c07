package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/runs"
)

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	s := newService(t)
	path := "/v1/endpoints/" + s.register(minimal)

	e := s.call("POST", path+"/pause", `{"until":"2098-11-21T12:00:00+01:00","reason":"deploy"}`).is(http.StatusOK)
	require.Equal(t, "paused", e["state"])
	require.Equal(t, "2098-11-21T11:00:00Z", e["pausedUntil"])
	require.Equal(t, false, e["pausedIndefinitely"])
	require.Equal(t, "deploy", e["pauseReason"])
	require.Equal(t, "2098-11-21T11:00:00Z", e["nextRunAt"])
	require.Equal(t, "paused", e["nextSource"])

	e = s.call("POST", path+"/pause", `{"forMs":1800000}`).is(http.StatusOK)
	require.Equal(t, "2098-11-21T10:30:00Z", e["pausedUntil"], "half an hour from now")
	require.Equal(t, "2098-11-21T10:30:00Z", e["nextRunAt"])

	for _, body := range []string{"", "{}", `{"until":null,"forMs":null}`} {
		a := s.call("POST", path+"/pause", body)
		e = a.is(http.StatusOK)
		require.Nil(t, e["pausedUntil"])
		require.Equal(t, true, e["pausedIndefinitely"])
		require.Nil(t, e["nextRunAt"])
		require.NotContains(t, string(a.body), "2199")
	}
	why := s.call("GET", path+"/explain", "").is(http.StatusOK)
	require.Nil(t, why["nextRunAt"])
	require.Equal(t, "pause", why["cause"])
	require.Equal(t, "writer", why["author"])
	require.Empty(t, s.call("GET", path+"/preview", "").is(http.StatusOK)["items"])

	for range 2 {
		e = s.call("POST", path+"/resume", "").is(http.StatusOK)
		require.Equal(t, "active", e["state"])
		require.Nil(t, e["pausedUntil"])
		require.NotContains(t, e, "pauseReason")
	}
}

func TestRunNow(t *testing.T) {
	t.Parallel()
	s := newService(t)
	id := s.register(`{"name":"p","url":"https://a.example/","baselineCron":"0 0 1 1 *"}`)
	path := "/v1/endpoints/" + id
	first := s.call("POST", path+"/run", "").is(http.StatusAccepted)
	require.Equal(t, "2098-11-21T10:00:00Z", first["scheduledFor"])
	require.Equal(t, runs.NewID(now, s.only().ID, 1, 0).String(), first["runId"])
	require.InDelta(t, 1, first["waiting"], 0)
	require.NotEqual(t, first["runId"], s.call("POST", path+"/run", "{}").is(http.StatusAccepted)["runId"])
	require.Equal(t, "manual", s.call("GET", path, "").is(http.StatusOK)["nextSource"])
	why := s.call("GET", path+"/explain", "").is(http.StatusOK)
	require.Equal(t, "manual", why["steps"].([]any)[0].(map[string]any)["rule"])
}

func TestAOneOffRunMayHaveItsOwnRequest(t *testing.T) {
	t.Parallel()
	s := newService(t)
	path := "/v1/endpoints/" + s.register(`{"name":"p","url":"https://a.example/","method":"POST","baselineCron":"0 0 1 1 *"}`) + "/run"
	body := `{"body":"{}","headers":{"X-A":"1"},"query":{"q":"2"},"deadlineMs":60000,"priority":"high","force":true,"idempotencyKey":"k-1"}`
	first := s.call("POST", path, body).is(http.StatusAccepted)
	again := s.call("POST", path, body).is(http.StatusAccepted)
	require.Equal(t, first["runId"], again["runId"])
	require.Equal(t, true, again["repeated"])
	require.NotContains(t, again, "waiting")
	require.Equal(t, "idempotency_key_reused", s.call("POST", path, `{"idempotencyKey":"k-1"}`).is(http.StatusConflict)["code"])

	s.call("POST", path, `{"priority":"urgent","deadlineMs":0,"body":7,"colour":"red"}`).is(http.StatusBadRequest)
	refused := s.call("POST", path, `{"deadlineMs":0,"headers":{"Host":"a"},"idempotencyKey":""}`).is(http.StatusUnprocessableEntity)
	require.Len(t, refused["errors"], 3)
}

func TestHints(t *testing.T) {
	t.Parallel()
	s := newService(t)
	path := "/v1/endpoints/" + s.register(`{"name":"p","url":"https://a.example/","baselineCron":"0 0 1 1 *","minIntervalMs":30000}`)

	e := s.call("PUT", path+"/hints/interval", `{"intervalMs":1000,"ttlMs":3600000,"reason":"busy"}`).is(http.StatusOK)
	require.Equal(t, map[string]any{
		"intervalMs": 1000.0, "reason": "busy", "author": "writer",
		"createdAt": "2098-11-21T10:00:00Z", "expiresAt": "2098-11-21T11:00:00Z",
	}, e["hints"].(map[string]any)["interval"])
	var codes []string
	for _, w := range e["warnings"].([]any) {
		codes = append(codes, w.(map[string]any)["code"].(string))
	}
	require.Contains(t, codes, "hint_clamped")

	e = s.call("PUT", path+"/hints/one-shot", `{"inMs":90000,"expiresAt":"2098-11-21T10:30:00Z"}`).is(http.StatusOK)
	require.Equal(t, "2098-11-21T10:01:30Z", e["hints"].(map[string]any)["oneShot"].(map[string]any)["at"])
	s.call("PUT", path+"/hints/one-shot", `{"at":"2098-11-21T10:02:00Z","ttlMs":600000}`).is(http.StatusOK)

	e = s.call("DELETE", path+"/hints", "").is(http.StatusOK)
	require.Empty(t, e["hints"])
	require.Equal(t, "baseline-cron", e["nextSource"])
}

// TestStateOfTheSchedule covers stored state that no call of the API sets.
func TestStateOfTheSchedule(t *testing.T) {
	t.Parallel()
	s := newService(t)
	path := "/v1/endpoints/" + s.register(minimal)
	stored := s.only()
	slot := now.Add(-time.Minute)
	stored.State.FailureCount = 3
	stored.State.PausedUntil = now                                                     // Over: it ends exactly now.
	stored.State.IntervalHint = &endpoints.Hint{Interval: time.Second, ExpiresAt: now} // Expired.
	stored.State.Running = &endpoints.Running{Slot: slot, Attempt: 2, StartedAt: slot} // Live.
	stored.State.LastRun = &endpoints.LastRun{Slot: slot, Attempt: 1, Status: "failed", StartedAt: slot, FinishedAt: now}
	e := s.call("GET", path, "").is(http.StatusOK)
	require.Equal(t, "active", e["state"])
	require.Empty(t, e["hints"])
	require.InDelta(t, 3, e["failureCount"], 0)
	require.Equal(t, runs.NewID(slot, stored.ID, 2, 0).String(), e["running"].(map[string]any)["runId"])
	require.Equal(t, runs.NewID(slot, stored.ID, 1, 0).String(), e["lastRun"].(map[string]any)["runId"])

	stored.State.Running = nil
	require.InDelta(t, 0, s.call("POST", path+"/reset-failures", "").is(http.StatusOK)["failureCount"], 0)
}

func TestPreview(t *testing.T) {
	t.Parallel()
	s := newService(t)
	path := "/v1/endpoints/" + s.register(`{"name":"p","url":"https://a.example/","baselineCron":"0 9 * * *","timezone":"Europe/Berlin"}`)
	require.Len(t, s.call("GET", path+"/preview", "").is(http.StatusOK)["items"], 10)
	items := s.call("GET", path+"/preview?n=2", "").is(http.StatusOK)["items"].([]any)
	require.Equal(t, map[string]any{"at": "2098-11-22T08:00:00Z", "source": "baseline-cron"}, items[0])
	require.Equal(t, "2098-11-23T08:00:00Z", items[1].(map[string]any)["at"])
}

func TestArchivedEndpointsDoNothing(t *testing.T) {
	t.Parallel()
	s := newService(t)
	id := s.register(minimal)
	s.call("DELETE", "/v1/endpoints/"+id, "").is(http.StatusNoContent)
	for _, r := range everyRoute(ids{endpoint: id}) {
		if r.scope == "write" && strings.Contains(r.path, id) && r.id != "archiveEndpoint" {
			a := s.call(r.method, r.path, r.body)
			require.Equal(t, http.StatusConflict, a.status, r.id)
			require.Equal(t, "endpoint_archived", a.problem().Code)
		}
	}
}
