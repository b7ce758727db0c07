package httpapi_test

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/auth"
	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/httpapi"
	"rubato/internal/runs"
)

// samples are the runs of one endpoint of the first tenant: finished with text, failed with bytes,
// skipped, live.
func samples() history {
	endpoint := [16]byte{0xe}
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	run := func(minute int, status runs.Status) runs.Run {
		slot := at.Add(time.Duration(minute) * time.Minute)
		return runs.Run{
			ID: runs.NewID(slot, endpoint, 1, 0), EndpointID: endpoint, TenantID: auth.DefaultTenant(), ScheduledFor: slot, Attempt: 1,
			Source: "baseline-interval", ClaimToken: int64(minute + 1), Outcome: runs.Outcome{Status: status},
		}
	}
	steps, err := json.Marshal([]governor.Step{
		{Rule: governor.RuleBaselineInterval, At: at.Add(time.Minute), Why: "every 1m0s"},
		{Rule: governor.RulePaused, At: governor.Indefinite, Why: "paused"},
	})
	if err != nil {
		panic(err)
	}
	ok, failed, skipped, live := run(0, runs.Succeeded), run(1, runs.Failed), run(2, runs.Skipped), run(3, runs.Running)
	for i, r := range []*runs.Run{&ok, &failed, &live} {
		r.WorkerID = [16]byte{0xf}
		r.ClaimedAt, r.StartedAt = r.ScheduledFor.Add(-5*time.Second), r.ScheduledFor.Add(1500*time.Microsecond)
		if i < 2 {
			r.FinishedAt = r.StartedAt.Add(250 * time.Millisecond)
			r.Outcome.Reason, r.Outcome.ContentType, r.Outcome.StatusCode = runs.HTTPStatus, "text/plain", 200
			r.Outcome.Phases = runs.Phases{DNS: time.Millisecond, Connect: 2 * time.Millisecond, Wait: 246500 * time.Microsecond}
		}
	}
	skipped.ID, skipped.Attempt, skipped.ClaimToken = runs.NewID(skipped.ScheduledFor, endpoint, 0, 0), 0, 0
	skipped.Outcome.Reason, skipped.FinishedAt = runs.OverlapSkipped, skipped.ScheduledFor.Add(20*time.Second)
	skipped.Skipped = &runs.Skips{From: skipped.ScheduledFor.Add(-20 * time.Second), To: skipped.ScheduledFor, Count: 3}
	ok.Outcome.Body, ok.Outcome.ResponseBytes = []byte("grüße\x00"), 8
	ok.Outcome.BodyDigest = 0x00326207b4eb2f34
	ok.Decision = runs.Decision{NextRunAt: governor.Indefinite, Source: "paused", Steps: steps}
	failed.Outcome.Body, failed.Outcome.Truncated, failed.Outcome.StatusCode = []byte{0xff, 0xfe}, true, 503
	failed.Decision = runs.Decision{NextRunAt: at.Add(2 * time.Minute), Source: "baseline-interval"}
	return history{ok, failed, skipped, live}
}

func TestGetRun(t *testing.T) {
	t.Parallel()
	s := newService(t, samples())
	for i, name := range []string{"run-succeeded", "run-failed", "run-skipped", "run-live"} {
		a := s.call("GET", "/v1/runs/"+samples()[i].ID.String(), "", withKey(readKey))
		a.is(http.StatusOK)
		golden(t, name, a.body)
	}
	failed := s.call("GET", "/v1/runs/"+samples()[1].ID.String(), "").is(http.StatusOK)
	require.Equal(t, base64.StdEncoding.EncodeToString([]byte{0xff, 0xfe}), failed["bodyBase64"])
	require.NotContains(t, failed, "body")
}

// TestAnUnclaimedRunHasNoClaimAndNoStart reads the run of a call that was canceled while it waited,
// and repeats its request with the configuration of that time.
func TestAnUnclaimedRunHasNoClaimAndNoStart(t *testing.T) {
	t.Parallel()
	run := samples()[3]
	run.ClaimToken, run.WorkerID, run.ClaimedAt, run.StartedAt = 0, [16]byte{}, time.Time{}, time.Time{}
	run.FinishedAt, run.Outcome = run.ScheduledFor.Add(time.Minute), runs.Outcome{Status: runs.Canceled, Reason: runs.CanceledByUser}
	s := newService(t, history{run})

	got := s.call("GET", "/v1/runs/"+run.ID.String(), "").is(http.StatusOK)

	for _, field := range []string{"claimToken", "claimedAt", "startedAt", "startLagMs", "durationMs", "workerId", "phases"} {
		require.NotContains(t, got, field)
	}
	require.Equal(t, "2026-11-21T10:04:00Z", got["finishedAt"])
	require.Equal(t, run.FinishedAt, httpapi.PastOf(run).At)
	require.Equal(t, samples()[2].ScheduledFor, httpapi.PastOf(samples()[2]).At, "skipped due times")
	require.Equal(t, samples()[0].ClaimedAt, httpapi.PastOf(samples()[0]).At)
}

func TestListRuns(t *testing.T) {
	t.Parallel()
	s := newService(t, samples())
	list := func(query string) []string {
		var ids []string
		for _, item := range s.call("GET", "/v1/runs?"+query, "").is(http.StatusOK)["items"].([]any) {
			run := item.(map[string]any)
			require.NotContains(t, run, "body")
			ids = append(ids, run["scheduledFor"].(string)[14:16])
		}
		return ids
	}
	require.Equal(t, []string{"03", "02", "01", "00"}, list(""))
	require.Equal(t, []string{"01"}, list("status=failed"))
	require.Equal(t, []string{"03"}, list("status=running"))
	require.Equal(t, []string{"03", "01"}, list("status=failed&status=running&status=failed"))
	require.Equal(t, []string{"02", "01"}, list("from=2026-11-21T10:01:00Z&to=2026-11-21T10:03:00Z"))
	require.Equal(t, []string{"02", "01"}, list("from=2026-11-21T11:01:00%2B01:00&to=2026-11-21T10:03:00Z"))

	first := s.call("GET", "/v1/runs?limit=3", "").is(http.StatusOK)
	require.Len(t, first["items"], 3)
	rest := s.call("GET", "/v1/runs?limit=3&cursor="+first["nextCursor"].(string), "").is(http.StatusOK)
	require.Len(t, rest["items"], 1)
	require.NotContains(t, rest, "nextCursor")
	a := s.call("GET", "/v1/runs?status=failed&cursor="+first["nextCursor"].(string), "")
	require.Equal(t, []string{"cursor invalid_cursor"}, a.complaints())

	page := s.call("GET", "/v1/runs?status=running&status=failed&limit=1", "").is(http.StatusOK)
	page = s.call("GET", "/v1/runs?status=failed&status=running&limit=1&cursor="+page["nextCursor"].(string), "").is(http.StatusOK)
	require.Len(t, page["items"], 1, "the order of statuses does not count")
	require.NotContains(t, page, "nextCursor")
	a = s.call("GET", "/v1/runs?status=failed&status=done", "")
	require.Equal(t, []string{"status invalid_value"}, a.complaints())
}

// TestAttemptsOfADueTimeAreListedInTheirOrder has more attempts than fit on a page. Each is listed
// exactly once.
func TestAttemptsOfADueTimeAreListedInTheirOrder(t *testing.T) {
	t.Parallel()
	list := samples()[:1]
	slot, endpoint := list[0].ScheduledFor.Add(time.Minute), list[0].EndpointID
	for n := range 6 {
		r := list[0]
		r.ScheduledFor, r.Attempt, r.InfraAttempt = slot, n/2+1, (n+1)/2 // The second, fourth and sixth follow a loss.
		r.ID = runs.NewID(slot, endpoint, r.Attempt, r.InfraAttempt)
		list = append(list, r)
	}
	s := newService(t, list)
	attempts := func(page map[string]any) (found []float64) {
		for _, item := range page["items"].([]any) {
			run := item.(map[string]any)
			found = append(found, 10*run["attempt"].(float64)+run["infraAttempt"].(float64))
		}
		return found
	}
	require.Equal(t, []float64{33, 32, 22, 21, 11, 10, 10}, attempts(s.call("GET", "/v1/runs", "").is(http.StatusOK)))

	first := s.call("GET", "/v1/runs?limit=4", "").is(http.StatusOK)
	rest := s.call("GET", "/v1/runs?limit=4&cursor="+first["nextCursor"].(string), "").is(http.StatusOK)
	shown, more := attempts(first), attempts(rest)
	require.True(t, slices.IsSortedFunc(shown, func(a, b float64) int { return cmp.Compare(b, a) }), shown)
	require.ElementsMatch(t, []float64{33, 32, 22, 21, 11, 10, 10}, append(shown, more...))
	require.Equal(t, 10.0, more[len(more)-1], "the due time before comes last")
}

// TestRunsThatAreDueTogetherHaveOneOrder: runs with the same due time have the same order within a
// page and across cursors.
func TestRunsThatAreDueTogetherHaveOneOrder(t *testing.T) {
	t.Parallel()
	var list []runs.Run
	for range 9 {
		r := samples()[0]
		r.EndpointID = endpoints.NewID()
		r.ID = runs.NewID(r.ScheduledFor, r.EndpointID, r.Attempt, r.InfraAttempt)
		list = append(list, r)
	}
	s := newService(t, list)
	listed := func(limit string) (found []any) {
		path := "/v1/runs?limit=" + limit
		for next, more := "", true; more; {
			page := s.call("GET", path+next, "").is(http.StatusOK)
			for _, item := range page["items"].([]any) {
				found = append(found, item.(map[string]any)["id"])
			}
			var cursor string
			cursor, more = page["nextCursor"].(string)
			next = "&cursor=" + cursor
		}
		return found
	}
	whole := listed("50")
	require.Len(t, whole, len(list))
	require.Equal(t, whole, listed("1"))
	require.Equal(t, whole, listed("4"))
}

func TestListEndpointRuns(t *testing.T) {
	t.Parallel()
	s := newService(t, samples())
	id := s.register(minimal)
	require.Empty(t, s.call("GET", "/v1/endpoints/"+id+"/runs", "").is(http.StatusOK)["items"])
	require.Empty(t, s.call("GET", "/v1/runs?endpointId="+id, "").is(http.StatusOK)["items"])
	e := s.only()
	delete(s.store.endpoints, e.ID)
	e.ID = samples()[0].EndpointID
	s.store.endpoints[e.ID] = e
	require.Len(t, s.call("GET", "/v1/endpoints/"+e.ID.String()+"/runs?status=skipped", "").is(http.StatusOK)["items"], 1)
	require.Len(t, s.call("GET", "/v1/runs?endpointId="+e.ID.String(), "").is(http.StatusOK)["items"], 4)
	s.call("GET", "/v1/endpoints/"+id+"/runs", "").is(http.StatusNotFound)
}

// TestARunOfACallNamesTheCall lists a run of a call, which has no endpoint.
func TestARunOfACallNamesTheCall(t *testing.T) {
	t.Parallel()
	run := samples()[0]
	run.Source = string(governor.SourceCall)
	s := newService(t, history{run})
	require.Equal(t, "call_0e000000-0000-0000-0000-000000000000", s.call("GET", "/v1/runs/"+run.ID.String(), "").is(http.StatusOK)["endpointId"])
}
