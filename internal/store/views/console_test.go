package views_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/auth"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/stats"
	keystore "rubato/internal/store/keys"
	"rubato/internal/store/storetest"
	"rubato/internal/store/views"
)

// past is a run as the history holds it.
type past struct {
	endpoint  endpoints.ID
	due       time.Time
	lag, took time.Duration
	status    string
	attempt   int
	skipped   int
	tenant    [16]byte
}

// remember inserts runs into the history, as finishes do.
func (b *bundle) remember(t *testing.T, list ...past) {
	t.Helper()
	for _, p := range list {
		if p.tenant == ([16]byte{}) {
			p.tenant = keystore.DefaultTenant
		}
		var count *int
		if p.skipped > 0 {
			count = &p.skipped
		}
		b.Exec(t, "SELECT history_create_day($1::date)", p.due)
		_, err := b.Pool.Exec(t.Context(), `
			INSERT INTO runs (id, scheduled_for, endpoint_id, tenant_id, attempt, source, claim_token, worker_id, claimed_at, started_at, finished_at, status,
			                  reason_code, status_code, dns_us, connect_us, tls_us, wait_us, transfer_us, response_bytes, truncated, error, version, failure_count,
			                  skipped_from, skipped_count)
			VALUES (uuidv7_of($1), $1, $2, $3, $4, 'baseline-interval', 1, gen_random_uuid(), $1, $5, $6, $7, 'http_status', 500, 0, 0, 0, 0, 0, 0, false, 'out of tea', 1, 0,
			        CASE WHEN $8::int IS NULL THEN NULL ELSE $1 END, $8)`,
			p.due, p.endpoint, p.tenant, p.attempt, p.due.Add(p.lag), p.due.Add(p.lag+p.took), p.status, count)
		require.NoError(t, err)
	}
}

// watched is a database with a fixed history, and the instant of reading it.
func watched(t *testing.T) (*bundle, *views.Console, endpoints.ID, time.Time) {
	t.Helper()
	b := setup(t)
	b.Exec(t, `CREATE FUNCTION uuidv7_of(at timestamptz) RETURNS uuid LANGUAGE sql AS $$
		SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || right(replace(gen_random_uuid()::text, '-', ''), 20))::uuid $$`)
	now := b.At(time.Now().UTC().Truncate(time.Minute).Add(10 * time.Second))
	spec := endpoints.Defaults()
	spec.Name, spec.URL, spec.BaselineInterval = "watched", "https://example.com/", time.Minute
	e, _, err := b.Service.Register(t.Context(), storetest.Tenant, spec)
	require.NoError(t, err)
	return b, views.NewConsole(b.DB), e.ID, now
}

func TestTheConsoleAddsUpRuns(t *testing.T) {
	t.Parallel()
	b, c, id, now := watched(t)
	spec := endpoints.Defaults()
	spec.Name, spec.URL, spec.BaselineInterval = "another's", "https://example.com/", time.Minute
	strange, _, err := b.Service.Register(t.Context(), b.OtherTenant(t), spec)
	require.NoError(t, err)
	other := strange.ID
	b.remember(t,
		past{endpoint: id, due: now.Add(-100 * time.Second), lag: 10 * time.Millisecond, took: time.Second, status: "succeeded", attempt: 1},
		past{endpoint: id, due: now.Add(-40 * time.Second), lag: 30 * time.Millisecond, took: time.Second, status: "failed", attempt: 1},
		past{endpoint: id, due: now.Add(-39 * time.Second), lag: 9 * time.Second, took: time.Second, status: "lost", attempt: 2},
		past{endpoint: id, due: now.Add(-30 * time.Hour), took: time.Second, status: "failed", attempt: 1},
		past{endpoint: other, due: now.Add(-20 * time.Second), took: time.Second, status: "failed", attempt: 1, tenant: strange.TenantID},
	)
	o, err := c.Activity(t.Context(), keystore.DefaultTenant, 30*time.Minute, 30*time.Second)
	require.NoError(t, err)
	require.Equal(t, int64(1), o.Endpoints)
	require.Equal(t, []stats.Bucket{
		{At: now.Truncate(30 * time.Second).Add(-90 * time.Second), Succeeded: 1, LagP50: 10 * time.Millisecond, LagP99: 10 * time.Millisecond},
		{At: now.Truncate(30 * time.Second).Add(-30 * time.Second), Failed: 1, Lost: 1, LagP50: 30 * time.Millisecond, LagP99: 30 * time.Millisecond},
	}, o.Buckets, "the runs of others and those of before are not among them")
	require.Len(t, o.Incidents, 2, "the incidents of others are not among them")
	require.Equal(t, int64(1), o.Lost)
	require.Equal(t, "failed", o.Incidents[1].Status)
	require.Equal(t, stats.Incident{
		Runs: 1, RunID: o.Incidents[0].RunID, EndpointID: id, Name: "watched", Status: "lost", Reason: "http_status", StatusCode: 500,
		At: now.Add(-29 * time.Second), Error: "out of tea",
	}, o.Incidents[0], "lost runs come first")

	sparks, err := c.Sparks(t.Context(), keystore.DefaultTenant, [][16]byte{id, other}, 2)
	require.NoError(t, err)
	require.Len(t, sparks, 1, "an endpoint of somebody else has none")
	require.Equal(t, []string{"failed", "lost"}, []string{sparks[id][0].Status, sparks[id][1].Status}, "the newest two, oldest first")

	grounds, err := c.DecisionBasis(t.Context(), keystore.DefaultTenant, id)
	require.NoError(t, err)
	require.Zero(t, grounds, "it never ran")
	_, err = b.Pool.Exec(t.Context(), "UPDATE schedules SET anchor = $2, retry_after = $3 WHERE endpoint_id = $1", id, now, now.Add(time.Hour))
	require.NoError(t, err)
	grounds, err = c.DecisionBasis(t.Context(), keystore.DefaultTenant, id)
	require.NoError(t, err)
	require.True(t, grounds.Anchor.Equal(now) && grounds.RetryAfter.Equal(now.Add(time.Hour)))
	grounds, err = c.DecisionBasis(t.Context(), [16]byte{9}, id)
	require.NoError(t, err)
	require.Zero(t, grounds, "another tenant's endpoint")

	names, err := c.Names(t.Context(), [16]byte{9}, [][16]byte{id})
	require.NoError(t, err)
	require.Empty(t, names)
}

// An endpoint that fails all the time hides no other, and what ended last comes first, however long
// ago it was due.
func TestIncidentsAreGroupedByEndpointAndReason(t *testing.T) {
	t.Parallel()
	b, c, noisy, now := watched(t)
	register := func(name string) endpoints.ID {
		spec := endpoints.Defaults()
		spec.Name, spec.URL, spec.BaselineInterval = name, "https://example.com/", time.Minute
		e, _, err := b.Service.Register(t.Context(), storetest.Tenant, spec)
		require.NoError(t, err)
		return e.ID
	}
	slow, long := register("slow"), register("long")
	b.remember(t, past{endpoint: long, due: now.Add(-31 * time.Minute), took: 31*time.Minute - 100*time.Millisecond, status: "lost", attempt: 1})
	for s := range 20 {
		b.remember(t, past{endpoint: noisy, due: now.Add(-time.Duration(s+1) * time.Second), took: 10 * time.Millisecond, status: "failed", attempt: 1})
	}
	b.remember(t,
		past{endpoint: slow, due: now.Add(-50 * time.Second), took: 20 * time.Second, status: "timed_out", attempt: 1},
		past{endpoint: slow, due: now.Add(-40 * time.Second), took: 5 * time.Second, status: "failed", attempt: 1},
		past{endpoint: slow, due: now.Add(-30 * time.Second), took: time.Second, status: "succeeded", attempt: 1},
		past{endpoint: slow, due: now.Add(-25 * time.Hour), took: time.Second, status: "failed", attempt: 1},
	)
	told := func() (list []string) {
		o, err := c.Activity(t.Context(), keystore.DefaultTenant, 30*time.Minute, 30*time.Second)
		require.NoError(t, err)
		for _, i := range o.Incidents {
			list = append(list, fmt.Sprintf("%s %s %d %t %s", i.Name, i.Status, i.Runs, i.More, now.Sub(i.At)))
		}
		return list
	}
	want := []string{"long lost 1 false 100ms", "watched failed 20 false 990ms", "slow timed_out 1 false 30s", "slow failed 1 false 35s"}
	require.Equal(t, want, told())

	crowd := func(many int, status string) {
		_, err := b.Pool.Exec(t.Context(), `
			INSERT INTO runs (id, scheduled_for, endpoint_id, tenant_id, attempt, source, claim_token, worker_id, claimed_at, started_at, finished_at, status,
			                  reason_code, dns_us, connect_us, tls_us, wait_us, transfer_us, response_bytes, truncated, version, failure_count)
			SELECT uuidv7_of(due), due, $1, $2, 1, 'manual', 1, gen_random_uuid(), due, due, due, $3, 'x', 0, 0, 0, 0, 0, 0, false, 1, 0
			FROM generate_series(1, $4::int) n, LATERAL (SELECT $5::timestamptz - n * interval '1 ms') AS each (due)`,
			noisy, keystore.DefaultTenant, status, many, now.Add(-time.Second))
		require.NoError(t, err)
	}
	crowd(stats.MaxRuns, "succeeded")
	require.Equal(t, want, told(), "what goes well hides nothing")
	crowd(stats.MaxBadRuns, "failed")
	flooded := told()
	require.Equal(t, "long lost 1 true 100ms", flooded[0])
	require.Contains(t, flooded, "slow timed_out 1 true 30s", "a flood of one way to fail hides no other")
}

// A lost run of hours ago stays in view while more endpoints than the list holds fail every second.
func TestLostRunsAreHiddenByNoFlakyEndpoints(t *testing.T) {
	t.Parallel()
	b, c, quiet, now := watched(t)
	b.remember(t, past{endpoint: quiet, due: now.Add(-6 * time.Hour), took: time.Minute, status: "lost", attempt: 1})
	b.remember(t, past{endpoint: quiet, due: now.Add(-7 * time.Hour), took: time.Minute, status: "lost", attempt: 1})
	for i := range 20 {
		spec := endpoints.Defaults()
		spec.Name, spec.URL, spec.BaselineInterval = fmt.Sprintf("flaky-%d", i), "https://example.com/", time.Minute
		e, _, err := b.Service.Register(t.Context(), storetest.Tenant, spec)
		require.NoError(t, err)
		b.remember(t, past{endpoint: e.ID, due: now.Add(-time.Second), took: 10 * time.Millisecond, status: "failed", attempt: 1})
	}
	o, err := c.Activity(t.Context(), keystore.DefaultTenant, 30*time.Minute, 30*time.Second)
	require.NoError(t, err)
	require.Len(t, o.Incidents, 12)
	require.Equal(t, "watched lost 2", fmt.Sprintf("%s %s %d", o.Incidents[0].Name, o.Incidents[0].Status, o.Incidents[0].Runs))
	require.Equal(t, "failed", o.Incidents[1].Status)
	require.Equal(t, int64(2), o.Lost)
}

func TestConsoleListsHistoryOfEndpoint(t *testing.T) {
	t.Parallel()
	b, c, id, now := watched(t)
	interval, ttl, until := 30*time.Second, time.Hour, now.Add(time.Hour)
	_, _, err := b.Service.SetIntervalHint(t.Context(), storetest.Tenant, id, endpoints.HintRequest{Interval: interval, TTL: &ttl, Reason: "sale"})
	require.NoError(t, err)
	b.At(now.Add(time.Minute))
	_, err = b.Service.Pause(t.Context(), storetest.Tenant, id, endpoints.PauseRequest{Until: until, Reason: "stock-taking"})
	require.NoError(t, err)
	_, _, err = b.Service.ClearHints(t.Context(), storetest.Tenant, id)
	require.NoError(t, err)

	h, err := c.History(t.Context(), keystore.DefaultTenant, id, time.Hour)
	require.NoError(t, err)
	require.Len(t, h.Changes, 4)
	require.Equal(t, "pause", h.Changes[1].Cause)
	require.Equal(t, until, h.Changes[1].PausedUntil)
	require.True(t, h.Changes[3].PausedUntil.IsZero())
	require.Equal(t, []stats.Hint{{
		Kind: "interval", Interval: interval, CreatedAt: now, EndedAt: now.Add(time.Minute), Reason: "sale", Author: storetest.Tenant.Name,
	}}, h.Hints, "it ended when it was cleared, not when it would have expired")
	h, err = c.History(t.Context(), [16]byte{9}, id, time.Hour)
	require.NoError(t, err)
	require.Empty(t, h.Changes)
	require.Empty(t, h.Hints)
}

// Each breach of a guarantee that history can show is counted, and nothing else is.
func TestTheConsoleCountsBrokenGuarantees(t *testing.T) {
	t.Parallel()
	b, c, id, now := watched(t)
	at := func(seconds int) time.Time { return now.Add(time.Duration(seconds) * time.Second) }
	b.remember(t,
		past{endpoint: id, due: at(-90), lag: 5 * time.Millisecond, took: time.Second, status: "succeeded", attempt: 1},
		past{endpoint: id, due: at(-80), lag: -40 * time.Millisecond, took: time.Second, status: "succeeded", attempt: 1},
		past{endpoint: id, due: at(-75), took: time.Second, status: "lost", attempt: 1},
		past{endpoint: id, due: at(-74), lag: 500 * time.Millisecond, took: time.Second, status: "succeeded", attempt: 2},
		past{endpoint: id, due: at(-60), took: 0, status: "skipped", attempt: 0, skipped: 7},
		past{endpoint: endpoints.ID{9}, due: at(-70), took: time.Second, status: "lost", attempt: 1, tenant: [16]byte{9}},
		past{endpoint: endpoints.ID{9}, due: at(-60), took: 0, status: "skipped", attempt: 0, skipped: 7, tenant: [16]byte{9}},
	)
	p, err := c.Proof(t.Context(), keystore.DefaultTenant)
	require.NoError(t, err)
	require.Equal(t, stats.GuaranteeStats{
		At: p.At, Since: at(-90), Runs: 4, Lost: 1, SkippedDue: 7, LagP50: p.LagP50, LagP99: p.LagP99,
	}, p, "40 ms early is within the allowance, and what follows a lost run overlaps nothing that is known")

	b.remember(t,
		past{endpoint: id, due: at(-50), lag: -60 * time.Millisecond, took: 20 * time.Second, status: "succeeded", attempt: 1},
		past{endpoint: id, due: at(-40), took: time.Second, status: "succeeded", attempt: 1},
		past{endpoint: id, due: at(-40), lag: 15 * time.Second, took: time.Second, status: "succeeded", attempt: 2},
	)
	b.Exec(t, `INSERT INTO tenants (id, name) VALUES ('00000000-0000-0000-0000-000000000099', 'other')`)
	other := b.Register(t, nil).ID
	b.Exec(t, "UPDATE schedules SET claimed_by = gen_random_uuid(), claimed_at = now(), claim_token = claim_token + 1")
	b.Exec(t, `UPDATE schedules SET run_id = gen_random_uuid(), started_at = now(), deadline_at = now(),
		due_at = now() - interval '10 minutes', tenant_id = CASE WHEN endpoint_id = $1 THEN '00000000-0000-0000-0000-000000000099' ELSE tenant_id END`, [16]byte(other))
	p, err = c.Proof(t.Context(), keystore.DefaultTenant)
	require.NoError(t, err)
	require.Equal(t, [4]int64{1, 2, 1, 1}, [4]int64{p.Early, p.Doubled, p.Overlapping, p.Stuck})
	require.Positive(t, p.LagP99)

	b.Exec(t, `UPDATE endpoints SET spec = spec || '{"jitterMs": 60000}'`)
	p, err = c.Proof(t.Context(), keystore.DefaultTenant)
	require.NoError(t, err)
	require.Zero(t, p.LagP99, "jitter is no lag")
	require.EqualValues(t, 1, p.Overlapping)
	b.Exec(t, `UPDATE endpoints SET spec = spec || '{"overlap": "allow"}'`)
	p, err = c.Proof(t.Context(), keystore.DefaultTenant)
	require.NoError(t, err)
	require.Zero(t, p.Overlapping, "runs that may overlap break no guarantee")
	o, err := c.Activity(t.Context(), keystore.DefaultTenant, 30*time.Minute, 30*time.Second)
	require.NoError(t, err)
	require.NotEmpty(t, o.Buckets)
	for _, bucket := range o.Buckets {
		require.Zero(t, bucket.LagP99, "jitter is no lag")
	}
}

// TestRunsThatNoWorkerClaimedBreakNoGuarantee withdraws two one-off runs while another is live.
func TestRunsThatNoWorkerClaimedBreakNoGuarantee(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(time.Now().UTC().Truncate(time.Millisecond))
	e := b.Register(t, nil)
	worker := storetest.Worker{1}
	claim, started := b.StartOne(t, worker)
	for range 2 {
		_, err := b.Service.RunNow(t.Context(), storetest.Tenant, e.ID, endpoints.OneOffRequest{})
		require.NoError(t, err)
	}
	b.At(now.Add(2 * time.Second))
	_, err := b.Service.Pause(t.Context(), storetest.Tenant, e.ID, endpoints.PauseRequest{})
	require.NoError(t, err)
	b.At(now.Add(5 * time.Second))
	run := storetest.Succeed(worker, claim, started)
	run.FinishedAt = now.Add(5 * time.Second)
	b.Finish(t, worker, 0, run)
	proof := func() stats.GuaranteeStats {
		t.Helper()
		p, err := views.NewConsole(b.DB).Proof(t.Context(), keystore.DefaultTenant)
		require.NoError(t, err)
		return p
	}

	require.Equal(t, 3, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM runs"))
	got := proof()
	require.Equal(t, [3]int64{1, 0, 0}, [3]int64{got.Runs, got.Early, got.Overlapping})

	b.ExecUntriggered(t, "UPDATE runs SET worker_id = gen_random_uuid() WHERE claim_token = 0")
	got = proof()
	require.EqualValues(t, 3, got.Runs)
	require.Positive(t, got.Overlapping, "a run with a worker was sent, whatever its fence")
}

// TestRunsThatAreLateByIntentHaveNoLag copies a run under each reason for which a start after its
// due time is no lag.
func TestRunsThatAreLateByIntentHaveNoLag(t *testing.T) {
	t.Parallel()
	b, _, id, now := watched(t)
	b.remember(t, past{endpoint: id, due: now.Add(-time.Minute), lag: time.Second, status: "succeeded", attempt: 1})
	lags := func() int {
		return storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM run_lags WHERE lag = interval '1 s'")
	}
	require.Equal(t, 1, lags())

	for _, other := range [][2]string{{"attempt", "2"}, {"infra_attempt", "1"}, {"source", "manual"}, {"source", "clamped-min"}, {"claim_token", "0"}} {
		b.Exec(t, `INSERT INTO runs SELECT (jsonb_populate_record(r, jsonb_build_object('id', gen_random_uuid(), $1::text, $2::text))).* FROM runs r LIMIT 1`, other[0], other[1])
	}

	require.Equal(t, 6, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM run_lags"))
	require.Equal(t, 1, lags(), "another attempt, a repeated loss, a run that was asked for or waited for its minimum, and one that nothing claimed")
}

func TestSessionsOfTheConsole(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := keystore.NewConsoleSessions(b.DB)
	one, two, key := auth.Hash("one"), auth.Hash("two"), auth.Hash("key")
	require.NoError(t, s.Open(t.Context(), one, key, time.Hour))
	require.NoError(t, s.Open(t.Context(), two, key, -time.Second))

	found, err := s.Find(t.Context(), one)
	require.NoError(t, err)
	require.Equal(t, key, found)
	_, err = s.Find(t.Context(), two)
	require.Equal(t, errs.NotFound, errs.CodeOf(err), "its time is over")
	require.NoError(t, s.Close(t.Context(), one))
	_, err = s.Find(t.Context(), one)
	require.Equal(t, errs.NotFound, errs.CodeOf(err))
	require.NoError(t, s.Close(t.Context(), one), "ending it twice is no error")
}
