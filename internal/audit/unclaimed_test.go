package audit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/audit"
	"rubato/internal/calls"
	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/runs"
	callstore "rubato/internal/store/calls"
	"rubato/internal/store/storetest"
)

// service is a database that is changed through the services and workers alone.
type service struct {
	*storetest.Bundle

	worker storetest.Worker
	calls  *callstore.Store
}

func newService(t *testing.T) *service {
	t.Helper()
	b := storetest.Setup(t)
	return &service{Bundle: b, worker: storetest.Worker{1}, calls: callstore.New(b.DB)}
}

// live starts the first run of a new endpoint with an interval of an hour, and requests two one-off
// runs that wait for its end.
func (s *service) live(t *testing.T, overlap governor.Overlap) (*endpoints.Endpoint, claims.Claim, dispatch.Started) {
	t.Helper()
	e := s.Register(t, func(spec *endpoints.Spec) { spec.BaselineInterval, spec.Overlap = time.Hour, overlap })
	claim, started := s.StartOne(t, s.worker)
	for range 2 {
		_, err := s.Service.RunNow(t.Context(), storetest.Tenant, e.ID, endpoints.OneOffRequest{})
		require.NoError(t, err)
	}
	return e, claim, started
}

func (s *service) pause(t *testing.T, id endpoints.ID) {
	t.Helper()
	_, err := s.Service.Pause(t.Context(), storetest.Tenant, id, endpoints.PauseRequest{})
	require.NoError(t, err)
}

// send stores a call that is due after a delay.
func (s *service) send(t *testing.T, delay time.Duration) *calls.Call {
	t.Helper()
	c := &calls.Call{ID: calls.NewID(), TenantID: storetest.Tenant.TenantID, Author: storetest.Tenant.Name, Spec: calls.Defaults()}
	c.Spec.URL, c.Spec.Idempotent, c.Spec.Retry.MaxAttempts = "http://target.example/", true, 3
	c.Spec = c.Spec.Normalize()
	sent, err := s.calls.Send(t.Context(), c, func(c *calls.Call, now time.Time) {
		c.CreatedAt, c.NotBefore = now, now.Add(delay).Truncate(time.Millisecond)
	})
	require.NoError(t, err)
	return sent
}

// TestRunsThatNoWorkerClaimedBreakNoGuarantee withdraws one-off runs and cancels calls while they
// wait.
func TestRunsThatNoWorkerClaimedBreakNoGuarantee(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		act  func(*testing.T, *service)
		want map[string]int
	}{
		"Pause": {func(t *testing.T, s *service) {
			t.Helper()
			e, _, _ := s.live(t, governor.OverlapSkip)
			s.pause(t, e.ID)
		}, map[string]int{"skipped": 2}},
		"PauseAndResume": {func(t *testing.T, s *service) {
			t.Helper()
			e, claim, started := s.live(t, governor.OverlapSkip)
			s.pause(t, e.ID)
			require.Empty(t, s.Finish(t, s.worker, 0, storetest.Succeed(s.worker, claim, started)).Late)
			_, err := s.Service.Resume(t.Context(), storetest.Tenant, e.ID)
			require.NoError(t, err)
		}, map[string]int{"skipped": 2, "succeeded": 1}},
		"Archive": {func(t *testing.T, s *service) {
			t.Helper()
			e, claim, started := s.live(t, governor.OverlapSkip)
			require.NoError(t, s.Service.Archive(t.Context(), storetest.Tenant, e.ID, 0))
			s.Finish(t, s.worker, 0, storetest.Succeed(s.worker, claim, started))
		}, map[string]int{"skipped": 2, "succeeded": 1}},
		"PauseOfRunsThatMayOverlap": {func(t *testing.T, s *service) {
			t.Helper()
			e, claim, started := s.live(t, governor.OverlapAllow)
			s.pause(t, e.ID)
			require.Empty(t, s.Finish(t, s.worker, 0, storetest.Succeed(s.worker, claim, started)).Late)
		}, map[string]int{"skipped": 2, "succeeded": 1}},
		"CancelOfACall": {func(t *testing.T, s *service) {
			t.Helper()
			require.NoError(t, s.calls.Cancel(t.Context(), storetest.Tenant, s.send(t, time.Hour).ID))
		}, map[string]int{"canceled": 1}},
		"CancelOfACallBetweenAttempts": {func(t *testing.T, s *service) {
			t.Helper()
			sent := s.send(t, 0)
			claim, started := s.StartOne(t, s.worker)
			require.Empty(t, s.Finish(t, s.worker, 0, storetest.Fail(s.worker, claim, started)).Late)
			require.NoError(t, s.calls.Cancel(t.Context(), storetest.Tenant, sent.ID))
		}, map[string]int{"failed": 1, "canceled": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t)
			c.act(t, s)
			r, err := audit.Run(t.Context(), s.URL, audit.Options{})
			require.NoError(t, err)
			require.Empty(t, breached(r))
			require.Equal(t, c.want, r.Counts.Statuses)
			started := r.Counts.Live
			for status, n := range c.want {
				if status != "skipped" && status != "canceled" {
					started += n
				}
			}
			require.Equal(t, started, r.Counts.Starts)
		})
	}
}

// TestRunsWithoutAFenceThatWereSentAreFound records the third run as one that no worker claimed,
// each time with one trace of a start left.
func TestRunsWithoutAFenceThatWereSentAreFound(t *testing.T) {
	t.Parallel()
	const unclaimed = `UPDATE runs SET claim_token = 0, worker_id = '00000000-0000-0000-0000-000000000000', status = 'canceled', reason_code = 'canceled_by_user', source = 'manual',
		claimed_at = finished_at, started_at = finished_at WHERE id = $1`
	requireFound(t, map[string]breach{
		"WithARequest": {
			func(s *story) { s.exec(unclaimed, s.id(2)) },
			[]audit.Invariant{audit.OneRequest, audit.NoLostDueTime},
		},
		"WithAWorker": {
			func(s *story) {
				s.exec(unclaimed, s.id(2))
				s.exec("UPDATE runs SET worker_id = $2 WHERE id = $1", s.id(2), s.worker)
				s.requests = s.requests[:0]
			},
			[]audit.Invariant{audit.OneLiveRun, audit.FencesIncrease, audit.NoLostDueTime, audit.MinGap},
		},
		"OfTheSchedule": {
			func(s *story) {
				s.exec(unclaimed, s.id(2))
				s.exec("UPDATE runs SET source = 'baseline-interval' WHERE id = $1", s.id(2))
				s.requests = s.requests[:0]
			},
			[]audit.Invariant{audit.OneLiveRun, audit.FencesIncrease, audit.NoLostDueTime, audit.MinGap},
		},
		"WithASuccess": {
			func(s *story) {
				s.exec(unclaimed, s.id(2))
				s.exec("UPDATE runs SET status = 'succeeded' WHERE id = $1", s.id(2))
				s.requests = s.requests[:0]
			},
			[]audit.Invariant{audit.OneLiveRun, audit.FencesIncrease, audit.NoLostDueTime, audit.MinGap},
		},
		"WithADuration": {
			func(s *story) {
				s.exec(unclaimed, s.id(2))
				s.exec("UPDATE runs SET claimed_at = claimed_at - interval '100 ms', started_at = started_at - interval '100 ms' WHERE id = $1", s.id(2))
				s.requests = s.requests[:0]
			},
			[]audit.Invariant{audit.OneLiveRun, audit.FencesIncrease, audit.NoLostDueTime, audit.MinGap},
		},
	})
}

// TestACanceledCallThatIsSentIsFound lets the call of a canceled run start at its due time.
func TestACanceledCallThatIsSentIsFound(t *testing.T) {
	t.Parallel()
	s := newService(t)
	sent := s.send(t, time.Minute)
	require.NoError(t, s.calls.Cancel(t.Context(), storetest.Tenant, sent.ID))
	s.Exec(t, `
		INSERT INTO runs
		SELECT (jsonb_populate_record(r, jsonb_build_object('id', $1::uuid, 'scheduled_for', $2::timestamptz, 'claimed_at', $2::timestamptz,
			'started_at', $2::timestamptz, 'finished_at', $2::timestamptz, 'claim_token', 1, 'status', 'succeeded'))).*
		FROM runs r`, runs.NewID(sent.NotBefore, sent.ID, 1, 0), sent.NotBefore)

	r, err := audit.Run(t.Context(), s.URL, audit.Options{})

	require.NoError(t, err)
	require.Equal(t, []audit.Invariant{audit.OneEnd}, breached(r))
}
