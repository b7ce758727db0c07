package items_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/endpoints"
	"rubato/internal/runs"
	"rubato/internal/store/storetest"
)

// past returns the origin of a run's request.
func past(run runs.Run, c claims.Claim) endpoints.RecordedRun {
	return endpoints.RecordedRun{
		RunID:    run.ID,
		Endpoint: c.EndpointID,
		Slot:     run.ScheduledFor,
		At:       run.ClaimedAt,
		Key:      runs.NewID(run.ScheduledFor, run.EndpointID, 1, 0).String(),
	}
}

// runNext claims, starts and finishes the run that is due, and returns its record and its URL.
func (b *bundle) runNext(t *testing.T, me storetest.Worker) (recorded runs.Run, c claims.Claim, url string) {
	t.Helper()
	c = b.ClaimOne(t, me)
	url = b.target(t, c).URL
	run := storetest.Succeed(me, c, b.Start(t, me, c)[0])
	require.Empty(t, b.Finish(t, me, 0, run).Late)
	recorded, err := b.Runs.Get(t.Context(), storetest.Tenant.TenantID, run.ID)
	require.NoError(t, err)
	return recorded, c, url
}

// TestRerunSendsTheRequestOfThatTime edits an endpoint after a run with overrides, and repeats the
// run and then its rerun.
func TestRerunSendsTheRequestOfThatTime(t *testing.T) {
	t.Parallel()
	b, me := setup(t), storetest.Worker{1}
	now := time.Now().UTC().Add(time.Second)
	e := b.Register(t, func(s *endpoints.Spec) {
		s.URL, s.StartAt = "http://target.example/old", time.Now().Add(time.Hour)
	})
	b.At(now)
	b.ask(t, e.ID, endpoints.OneOffRequest{Override: endpoints.Override{Query: map[string]string{"day": "1"}}})
	old, oldClaim, url := b.runNext(t, me)
	require.Equal(t, "http://target.example/old?day=1", url)
	b.At(now.Add(time.Minute))
	b.Edit(t, e.ID, func(s *endpoints.Spec) { s.URL, s.Timeout = "http://target.example/new", time.Second })

	again := func(r endpoints.Rerun) (runs.Run, claims.Claim, string) {
		t.Helper()
		queued, err := b.Service.Rerun(t.Context(), storetest.Tenant, r)
		require.NoError(t, err)
		c := b.ClaimOne(t, me)
		require.True(t, queued.Slot.Equal(c.Slot))
		target := b.target(t, c)
		require.Equal(t, time.Second, target.Spec.Timeout, "the limits are those of today")
		want := ""
		if r.SameKey {
			want = r.Past.Key
		}
		require.Equal(t, want, target.SentKey)
		run := storetest.Succeed(me, c, b.Start(t, me, c)[0])
		require.Empty(t, b.Finish(t, me, 0, run).Late)
		run, err = b.Runs.Get(t.Context(), storetest.Tenant.TenantID, run.ID)
		require.NoError(t, err)
		was, err := b.Service.PastRequest(t.Context(), storetest.Tenant, past(run, c))
		require.NoError(t, err)
		require.Equal(t, r.Past.RunID, was.RerunOf)
		return run, c, target.URL
	}
	then, thenClaim, url := again(endpoints.Rerun{Past: past(old, oldClaim)})
	require.Equal(t, "http://target.example/old?day=1", url)
	_, _, url = again(endpoints.Rerun{Past: past(old, oldClaim), AsNow: true, SameKey: true})
	require.Equal(t, "http://target.example/new", url)
	b.At(now.Add(2 * time.Minute))
	b.Edit(t, e.ID, func(s *endpoints.Spec) { s.URL = "http://target.example/newest" })
	_, _, url = again(endpoints.Rerun{Past: past(then, thenClaim), SameKey: true})
	require.Equal(t, "http://target.example/old?day=1", url, "the rerun of a rerun")
}

// TestRerunNeedsTheRequestOfThatTime repeats a run whose configuration is no longer kept, and one
// whose request refers to a deleted secret.
func TestRerunNeedsTheRequestOfThatTime(t *testing.T) {
	t.Parallel()
	b, me := setup(t), storetest.Worker{1}
	e := b.Register(t, func(s *endpoints.Spec) { s.StartAt = time.Now().Add(time.Hour) })
	b.At(time.Now().UTC().Add(time.Second))
	b.ask(t, e.ID, endpoints.OneOffRequest{})
	run, c, _ := b.runNext(t, me)
	b.Exec(t, "UPDATE endpoint_versions SET spec = jsonb_set(spec, '{headers}', $1)", `{"X-Token": "{{secret \"gone\"}}"}`)
	_, err := b.Service.Rerun(t.Context(), storetest.Tenant, endpoints.Rerun{Past: past(run, c)})
	require.ErrorContains(t, err, "headers.X-Token")
	require.Zero(t, b.waiting(t))

	b.Exec(t, "DELETE FROM endpoint_versions")
	_, err = b.Service.Rerun(t.Context(), storetest.Tenant, endpoints.Rerun{Past: past(run, c)})
	require.ErrorContains(t, err, "no longer kept")
	_, err = b.Service.Rerun(t.Context(), storetest.Tenant, endpoints.Rerun{Past: past(run, c), AsNow: true})
	require.NoError(t, err)
	require.Equal(t, 1, b.waiting(t))
}
