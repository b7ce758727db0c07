package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCancelRun(t *testing.T) {
	t.Parallel()
	s := newService(t, samples())
	live := "/v1/runs/" + samples()[3].ID.String()
	for _, body := range []string{`{"reason":"wrong dates"}`, "", "{}", `{"reason":null}`, `{"reason":"me too"}`} {
		run := s.call("POST", live+"/cancel", body).is(http.StatusAccepted)
		require.Equal(t, "running", run["status"])
		require.Equal(t, "2098-11-21T10:00:00Z", run["cancelRequestedAt"])
		require.NotContains(t, run, "error")
	}
	require.Equal(t, "2098-11-21T10:00:00Z", s.call("GET", live, "").is(http.StatusOK)["cancelRequestedAt"])
	items := s.call("GET", live+"/events", "", withKey(readKey)).is(http.StatusOK)["items"].([]any)
	require.Equal(t, map[string]any{
		"at": "2098-11-21T10:00:00Z", "kind": "cancel_requested", "author": "writer", "why": "wrong dates",
	}, items[len(items)-1])
}

func TestCancelOfARunThatIsOver(t *testing.T) {
	t.Parallel()
	s := newService(t, samples())
	for i, status := range []string{"succeeded", "failed", "skipped"} {
		a := s.call("POST", "/v1/runs/"+samples()[i].ID.String()+"/cancel", "")
		require.Equal(t, http.StatusConflict, a.status)
		require.Equal(t, "run_finished", a.problem().Code)
		require.Contains(t, a.problem().Detail, status)
	}
}

func TestCancelNamesEveryBadField(t *testing.T) {
	t.Parallel()
	s := newService(t, samples())
	live, unknown := "/v1/runs/"+samples()[3].ID.String(), "/v1/runs/run_0193466f-2a10-8c3e-9d41-5a2f6c7d8e90"
	for _, tc := range []struct {
		body       string
		status     int
		complaints []string
	}{
		{`{"reason":"` + strings.Repeat("x", 501) + `"}`, http.StatusUnprocessableEntity, []string{"reason too_long"}},
		{`{"reason":"a\u0007b"}`, http.StatusUnprocessableEntity, []string{"reason invalid_characters"}},
		{`{"reason":"a\u0000b"}`, http.StatusUnprocessableEntity, []string{"reason invalid_characters"}},
		{`{"reason":7}`, http.StatusBadRequest, []string{"reason invalid_type"}},
		{`{"why":"x","reason":7}`, http.StatusBadRequest, []string{"why unknown_field", "reason invalid_type"}},
		{`{"Reason":"x"}`, http.StatusBadRequest, []string{"Reason unknown_field"}},
		{`[]`, http.StatusBadRequest, []string{}},
	} {
		a := s.call("POST", live+"/cancel", tc.body)
		require.Equal(t, tc.status, a.status, "%s", a.body)
		require.ElementsMatch(t, tc.complaints, a.complaints(), "%s", tc.body)
		if len(tc.complaints) > 0 {
			require.Equal(t, http.StatusNotFound, s.call("POST", unknown+"/cancel", tc.body).status, "what is not there takes no advice")
		}
	}
	require.Equal(t, http.StatusUnsupportedMediaType, s.call("POST", live+"/cancel", "reason=x", withHeader("Content-Type", "text/plain")).status)
	require.NotContains(t, s.call("GET", live, "").is(http.StatusOK), "cancelRequestedAt", "nothing was asked for")

	require.Equal(t, http.StatusNotFound, s.call("POST", "/v1/runs/nonsense/cancel", "").status)
	require.Equal(t, http.StatusNotFound, s.call("GET", "/v1/runs/nonsense/events", "").status)
	require.Equal(t, http.StatusNotFound, s.call("GET", unknown+"/events", "").status)
	a := s.call("GET", live+"/events?limit=1", "")
	require.Equal(t, []string{"limit unknown_parameter"}, a.complaints())
}

func TestListRunEvents(t *testing.T) {
	t.Parallel()
	s := newService(t, samples())
	for i, name := range []string{"events-succeeded", "events-failed", "events-skipped", "events-live"} {
		a := s.call("GET", "/v1/runs/"+samples()[i].ID.String()+"/events", "", withKey(readKey))
		a.is(http.StatusOK)
		golden(t, name, a.body)
	}
}
