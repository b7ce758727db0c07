package endpoints_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/runs"
	"rubato/internal/schedule"
	"rubato/internal/store/storetest"
	"rubato/internal/success"
)

func TestAnEndpointIsReadAsItWasRegistered(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Put(t, "t", storetest.Canary)
	now := b.At(storetest.Noon())
	e := b.Register(t, func(s *endpoints.Spec) {
		*s = endpoints.Spec{
			Name: "ü", Key: "a.b", Description: "line\nline", Labels: map[string]string{"team": "blue", "quote": `"`},
			URL: "https://target.example/path?q=1", Method: "POST", Headers: map[string]string{"X-One": "1"}, Body: "{\"a\":1}",
			BaselineCron: "0 9 * * 1-5", Timezone: "Europe/Berlin",
			DST:     endpoints.DST{Gap: schedule.GapSkip, Overlap: schedule.OverlapBoth},
			StartAt: now.Add(time.Hour), CatchUp: governor.CatchUpAll, Overlap: governor.OverlapQueue,
			MinInterval: 2 * time.Second, MaxInterval: 366 * 24 * time.Hour, Jitter: time.Second,
			Timeout: 7 * time.Second, MaxExecutionTime: 30 * time.Minute, MaxResponseKB: 1024, FollowRedirects: 10, Success: "2xx,304",
			Query: map[string]string{"page": "1"}, Auth: &endpoints.Auth{Type: endpoints.AuthBearer, Token: `{{secret "t"}}`},
			TLS: &endpoints.TLS{MinVersion: "1.3"}, Sign: true, ResponseTailKB: 64, Planner: endpoints.PlannerOff,
			SuccessRules: []endpoints.AnswerRule{{Type: success.JSON, JSONPath: "$.n", Op: success.Less, Value: 1.5}},
			Redact:       []endpoints.RedactRule{{JSONPath: "$.token"}}, Priority: endpoints.NormalPriority,
			Retry: endpoints.Retry{MaxAttempts: 10, Backoff: time.Millisecond, MaxBackoff: 24 * time.Hour}, Idempotent: true,
			Async: endpoints.Async{Timeout: 7 * 24 * time.Hour, Callback: endpoints.CallbackSigned},
		}
	})
	got := b.Get(t, e.ID)
	require.NotNil(t, got.Cron, "the baseline comes parsed")
	got.Cron = nil
	require.Empty(t, cmp.Diff(e, got))
}

func TestListsOfEndpointsFilterAndPage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	var all []endpoints.ID
	for n := range 7 {
		e := b.Register(t, func(s *endpoints.Spec) {
			s.Name, s.Key = fmt.Sprintf("n%d", n%2), fmt.Sprintf("k%d", n)
			s.Labels = map[string]string{"team": []string{"red", "blue"}[n%2], "n": fmt.Sprint(n)}
		})
		all = append([]endpoints.ID{e.ID}, all...)
	}
	storetest.Changes["Pause"](b.Bundle, t, all[0])
	_, err := b.Service.Pause(t.Context(), storetest.Tenant, all[1], endpoints.PauseRequest{Until: storetest.Noon().Add(time.Minute)})
	require.NoError(t, err)
	storetest.Changes["Archive"](b.Bundle, t, all[2])
	ids := func(f endpoints.Filter) []endpoints.ID {
		t.Helper()
		f.TenantID = storetest.Tenant.TenantID
		if f.Limit == 0 {
			f.Limit = 100
		}
		list, _, err := b.Service.List(t.Context(), f)
		require.NoError(t, err)
		var found []endpoints.ID
		for _, e := range list {
			found = append(found, e.ID)
		}
		return found
	}
	service := append(append([]endpoints.ID{}, all[:2]...), all[3:]...) // all but the archived one

	require.Equal(t, service, ids(endpoints.Filter{}))
	require.Equal(t, all[2:3], ids(endpoints.Filter{State: "archived"}))
	require.Equal(t, all[:2], ids(endpoints.Filter{State: "paused"}))
	require.Equal(t, all[3:], ids(endpoints.Filter{State: "active"}))
	require.Equal(t, []endpoints.ID{all[1], all[3], all[5]}, ids(endpoints.Filter{Name: "n1"}))
	require.Equal(t, []endpoints.ID{all[3]}, ids(endpoints.Filter{Key: "k3"}))
	require.Equal(t, []endpoints.ID{all[1], all[3], all[5]}, ids(endpoints.Filter{Labels: map[string]string{"team": "blue"}}))
	require.Equal(t, []endpoints.ID{all[3]}, ids(endpoints.Filter{Labels: map[string]string{"team": "blue", "n": "3"}}))
	require.Empty(t, ids(endpoints.Filter{Labels: map[string]string{"team": "green"}}))

	b.At(storetest.Noon().Add(time.Minute))
	require.Equal(t, append([]endpoints.ID{all[1]}, all[3:]...), ids(endpoints.Filter{State: "active"}), "a pause that ends now is over")

	var paged []endpoints.ID
	for cursor := (endpoints.ID{}); ; {
		page := ids(endpoints.Filter{Limit: 2, Before: cursor})
		if len(page) == 0 {
			break
		}
		paged = append(paged, page...)
		cursor = page[len(page)-1]
		b.Register(t, nil) // Endpoints registered meanwhile are newer than the cursor and move nothing.
	}
	require.Equal(t, service, paged)
}

// TestListsOfRunsFilterAndPage has runs of two endpoints over three days, and a live one.
func TestListsOfRunsFilterAndPage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	one := b.Register(t, nil)
	two := b.Register(t, func(s *endpoints.Spec) { s.StartAt = storetest.Noon().AddDate(0, 0, 300) })
	var all []runs.ID // newest first
	var failed runs.ID
	for n := range 6 {
		now := b.At(storetest.Noon().Add(time.Duration(n-2) * 12 * time.Hour))
		id := one.ID
		if n%3 == 2 {
			id = two.ID
		}
		b.Exec(t, "UPDATE schedules SET due_at = '2199-01-01', claimed_by = NULL, claim_token = claim_token + 1")
		b.Exec(t, "UPDATE schedules SET due_at = $2, planned_at = $2, slot = $2 WHERE endpoint_id = $1", [16]byte(id), now)
		c, s := b.StartOne(t, storetest.Worker{1})
		all = append([]runs.ID{s.RunID}, all...)
		switch n {
		case 5: // stays live
		case 3:
			failed = s.RunID
			b.Finish(t, storetest.Worker{1}, 0, storetest.Fail(storetest.Worker{1}, c, s))
		default:
			b.Finish(t, storetest.Worker{1}, 0, storetest.Succeed(storetest.Worker{1}, c, s))
		}
	}
	ids := func(f runs.Filter) []runs.ID {
		t.Helper()
		f.TenantID = storetest.Tenant.TenantID
		if f.Limit == 0 {
			f.Limit = 100
		}
		list, err := b.Runs.List(t.Context(), f)
		require.NoError(t, err)
		var found []runs.ID
		for _, run := range list {
			found = append(found, run.ID)
		}
		return found
	}

	require.Equal(t, all, ids(runs.Filter{}))
	require.Equal(t, all[:1], ids(runs.Filter{Statuses: []runs.Status{runs.Running}}))
	require.Equal(t, []runs.ID{failed}, ids(runs.Filter{Statuses: []runs.Status{runs.Failed}}))
	several := []runs.Status{runs.Failed, runs.Lost, runs.Running, runs.Failed}
	require.Equal(t, []runs.ID{all[0], failed}, ids(runs.Filter{Statuses: several}), "each once, in the order of all")
	require.Equal(t, []runs.ID{all[0]}, ids(runs.Filter{Statuses: several, Limit: 1}))
	require.Equal(t, []runs.ID{failed}, ids(runs.Filter{Statuses: several, Before: all[0]}))
	require.Equal(t, []runs.ID{all[0], all[3]}, ids(runs.Filter{EndpointID: two.ID}))
	require.Equal(t, all[1:3], ids(runs.Filter{From: all[2].Slot(), To: all[0].Slot()}), "from is included, to is not")
	require.Equal(t, all[:3], ids(runs.Filter{Limit: 3}))
	var paged []runs.ID
	for cursor := (runs.ID{}); ; {
		page := ids(runs.Filter{Limit: 2, Before: cursor})
		if len(page) == 0 {
			break
		}
		paged = append(paged, page...)
		cursor = page[len(page)-1]
	}
	require.Equal(t, all, paged)
}
