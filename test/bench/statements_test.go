package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/devpg/devpgtest"
	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/governor"
	"rubato/internal/runs"
	"rubato/internal/schedule"
	"rubato/internal/store"
)

const (
	registered = 20_000
	batchSize  = 200
)

// stage is a database with endpoints that are overdue, one worker, and what it does to them. Its Postgres does not wait for the disk: what
// a statement costs a core is what is compared from one commit to the next. `rubato bench` measures with a disk.
type stage struct {
	pool       *pgxpool.Pool
	claims     *store.Claims
	executions *store.Executions
	worker     [16]byte
}

func newStage(b *testing.B) *stage {
	b.Helper()
	url := devpgtest.NewDatabase(b, devpgtest.Template{Key: store.SchemaKey(), Migrate: func(ctx context.Context, url string) error {
		_, err := store.MigrateUp(ctx, url)
		return err
	}})
	db, err := store.Open(b.Context(), store.Config{URL: url})
	require.NoError(b, err)
	b.Cleanup(db.Close)
	pool, err := pgxpool.New(b.Context(), url)
	require.NoError(b, err)
	b.Cleanup(pool.Close)
	spec := endpoints.Defaults()
	spec.Name, spec.URL, spec.BaselineInterval = "bench", "http://target.example/", time.Hour
	_, _, err = endpoints.NewService(store.NewEndpoints(db), anyTarget{}).Register(b.Context(), endpoints.Actor{TenantID: store.DefaultTenant, Name: "bench"}, spec)
	require.NoError(b, err)
	s := &stage{pool: pool, claims: store.NewClaims(db), executions: store.NewExecutions(db), worker: [16]byte{1}}
	s.exec(b, `INSERT INTO endpoints SELECT made.* FROM endpoints t, generate_series(2, $1::int) n,
		LATERAL jsonb_populate_record(t, jsonb_build_object('id', overlay(t.id::text PLACING lpad(to_hex(n), 12, '0') FROM 25))) made`, registered)
	s.exec(b, `INSERT INTO schedules SELECT made.* FROM schedules t, endpoints e,
		LATERAL jsonb_populate_record(t, jsonb_build_object('endpoint_id', e.id)) made WHERE e.id <> t.endpoint_id`)
	s.exec(b, `UPDATE schedules SET due_at = at, planned_at = at, slot = at
		FROM (SELECT endpoint_id AS id, now() - row_number() OVER () * interval '1 ms' AS at FROM schedules) o WHERE o.id = endpoint_id`)
	s.exec(b, "VACUUM (ANALYZE) endpoints, schedules")
	return s
}

// anyTarget allows every URL and header.
type anyTarget struct{}

func (anyTarget) CheckURL(string) *errs.Field            { return nil }
func (anyTarget) CheckHeader(string, string) *errs.Field { return nil }

func (s *stage) exec(b *testing.B, sql string, args ...any) {
	b.Helper()
	_, err := s.pool.Exec(b.Context(), sql, args...)
	require.NoError(b, err)
}

func (s *stage) claim(b *testing.B) []claims.Claim {
	b.Helper()
	list, _, err := s.claims.ClaimDue(b.Context(), claims.Request{Worker: s.worker, Limit: batchSize, Horizon: 10 * time.Second, LockTTL: time.Minute})
	require.NoError(b, err)
	require.Len(b, list, batchSize)
	return list
}

// starts returns what begins the runs of claims.
func starts(list []claims.Claim) []dispatch.Start {
	out := make([]dispatch.Start, len(list))
	for i, c := range list {
		out[i] = dispatch.Start{Claim: c, TenantID: store.DefaultTenant, RunID: runs.NewID(c.Slot, c.EndpointID, c.Attempt), Execution: time.Minute}
	}
	return out
}

func (s *stage) start(b *testing.B, list []dispatch.Start) []dispatch.Started {
	b.Helper()
	started, err := s.executions.Start(b.Context(), s.worker, list, time.Minute)
	require.NoError(b, err)
	require.Len(b, started, len(list))
	return started
}

// finished returns the records of runs that succeeded.
func (s *stage) finished(list []dispatch.Start, started []dispatch.Started) []runs.Run {
	at := make(map[runs.ID]time.Time, len(started))
	for _, run := range started {
		at[run.RunID] = run.StartedAt
	}
	out := make([]runs.Run, len(list))
	for i, l := range list {
		out[i] = runs.Run{
			ID: l.RunID, EndpointID: l.Claim.EndpointID, TenantID: l.TenantID, ScheduledFor: l.Claim.Slot, Attempt: l.Claim.Attempt,
			Source: l.Claim.Source, ClaimToken: l.Claim.Token, WorkerID: s.worker, StartedAt: at[l.RunID], FinishedAt: at[l.RunID].Add(time.Millisecond),
			Outcome: runs.Outcome{Status: runs.Succeeded, Reason: runs.HTTPStatus, StatusCode: 200, MaybeSent: true},
		}
	}
	return out
}

func (s *stage) finish(b *testing.B, list []runs.Run) {
	b.Helper()
	done, err := s.executions.Finish(b.Context(), dispatch.Finish{Worker: s.worker, Runs: list, LockTTL: time.Minute})
	require.NoError(b, err)
	require.Empty(b, done.Late)
}

// again makes endpoints due anew, behind all the others, for a time that no run has stood for.
func (s *stage) again(b *testing.B, list []claims.Claim) {
	b.Helper()
	ids := make([][16]byte, len(list))
	for i, c := range list {
		ids[i] = c.EndpointID
	}
	s.exec(b, `UPDATE schedules SET due_at = at, planned_at = at, slot = at, claimed_by = NULL, claimed_at = NULL, claim_token = claim_token + 1
		FROM (SELECT date_trunc('milliseconds', clock_timestamp()) AS at) now WHERE endpoint_id = ANY ($1)`, ids)
}

// BenchmarkClaim takes 200 of 20,000 due endpoints.
func BenchmarkClaim(b *testing.B) {
	s := newStage(b)
	for b.Loop() {
		list := s.claim(b)
		b.StopTimer()
		s.again(b, list)
		b.StartTimer()
	}
}

// BenchmarkStart makes live runs of 200 claims.
func BenchmarkStart(b *testing.B) {
	s := newStage(b)
	for b.Loop() {
		b.StopTimer()
		list := s.claim(b)
		begin := starts(list)
		b.StartTimer()
		started := s.start(b, begin)
		b.StopTimer()
		s.finish(b, s.finished(begin, started))
		s.again(b, list)
		b.StartTimer()
	}
}

// BenchmarkFinish records 200 runs and plans what follows.
func BenchmarkFinish(b *testing.B) {
	s := newStage(b)
	for b.Loop() {
		b.StopTimer()
		list := s.claim(b)
		begin := starts(list)
		over := s.finished(begin, s.start(b, begin))
		b.StartTimer()
		s.finish(b, over)
		b.StopTimer()
		s.again(b, list)
		b.StartTimer()
	}
}

// BenchmarkDecide decides what follows one run. The package has more cases.
func BenchmarkDecide(b *testing.B) {
	last := time.Date(2026, 6, 15, 12, 0, 0, 0, time.UTC)
	cron, err := schedule.Parse(schedule.Spec{Expression: "*/5 * * * *", Zone: "Europe/Berlin"})
	require.NoError(b, err)
	for _, bc := range []struct {
		name     string
		baseline governor.Baseline
	}{
		{"Interval", governor.Baseline{Interval: time.Minute}},
		{"Cron", governor.Baseline{Cron: cron}},
	} {
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			in := governor.Input{EndpointID: [16]byte{1}, Now: last.Add(time.Second), Anchor: last, LastSlot: last, Baseline: bc.baseline}
			for b.Loop() {
				_ = governor.Decide(in)
			}
		})
	}
}

// BenchmarkCronNext looks for the next time of a cron expression. The package has more cases.
func BenchmarkCronNext(b *testing.B) {
	from := time.Date(2026, 6, 15, 12, 0, 0, 0, time.UTC)
	for _, expression := range []string{"* * * * *", "30 2 * * *", "0 0 29 2 *"} {
		b.Run(fmt.Sprintf("%q", expression), func(b *testing.B) {
			cron, err := schedule.Parse(schedule.Spec{Expression: expression, Zone: "Europe/Berlin"})
			require.NoError(b, err)
			b.ReportAllocs()
			for b.Loop() {
				cron.Next(from)
			}
		})
	}
}
