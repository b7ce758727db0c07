package audit_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"rubato/internal/audit"
	"rubato/internal/devpg/devpgtest"
	"rubato/internal/runs"
	"rubato/internal/store/pg"
)

const every = 10 * time.Second

// story is a database in which one endpoint has run four times, each time when it was due, and a
// target that saw it.
type story struct {
	t        *testing.T
	url      string
	conn     *pgx.Conn
	endpoint [16]byte
	worker   [16]byte
	began    time.Time // the first due time
	requests []audit.Request
	freezes  []audit.Freeze
	quiet    bool
}

const told = 4

func newStory(t *testing.T) *story {
	t.Helper()
	url := devpgtest.NewDatabase(t, devpgtest.Template{Key: pg.SchemaKey(), Migrate: func(ctx context.Context, url string) error {
		_, err := pg.MigrateUp(ctx, url)
		return err
	}})
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	s := &story{t: t, url: url, conn: conn, endpoint: [16]byte{1}, worker: [16]byte{2}}
	// Without these triggers no breach could be written.
	s.exec("DROP TRIGGER runs_immutable ON runs; DROP TRIGGER schedules_legal_update ON schedules; DROP TRIGGER schedules_legal_insert ON schedules")
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT date_trunc('milliseconds', clock_timestamp() - interval '35 s')").Scan(&s.began))
	s.exec(`
		INSERT INTO endpoints (id, tenant_id, version, created_at, updated_at, spec)
		VALUES ($1, '00000000-0000-0000-0000-000000000001', 1, $2, $2,
		        '{"name": "e", "url": "http://target/", "method": "GET", "baselineIntervalMs": 10000, "timezone": "UTC",
		          "dst": {"gap": "run", "overlap": "once"}, "catchUp": "once", "minIntervalMs": 10000, "jitterMs": 0, "timeoutMs": 1000,
		          "maxExecutionTimeMs": 2000, "maxResponseKb": 0, "followRedirects": 0, "success": "2xx",
		          "retry": {"maxAttempts": 1, "backoffMs": 1000, "maxBackoffMs": 1000}, "idempotent": false, "planner": "observe"}')`, s.endpoint, s.began)
	s.exec(`
		INSERT INTO schedules (endpoint_id, due_at, planned_at, slot, claim_token, version, lock_ms, attempt, source, failure_count)
		VALUES ($1, $2, $2, $2, $3, 1, 7000, 1, 'baseline-interval', 0)`, s.endpoint, s.slot(told), 2*told)
	s.decide("register", s.began, s.began)
	for n := range told {
		s.run(n)
	}
	return s
}

// slot returns the n-th due time.
func (s *story) slot(n int) time.Time { return s.began.Add(time.Duration(n) * every).UTC() }

func (s *story) id(n int) runs.ID { return runs.NewID(s.slot(n), s.endpoint, 1, 0) }

func (s *story) exec(sql string, args ...any) {
	s.t.Helper()
	_, err := s.conn.Exec(s.t.Context(), sql, args...)
	require.NoError(s.t, err)
}

// run adds the run of the n-th due time, which decides the next one, and its request.
func (s *story) run(n int) {
	s.t.Helper()
	started, ended := s.slot(n).Add(20*time.Millisecond), s.slot(n).Add(120*time.Millisecond)
	s.exec(`
		INSERT INTO runs (id, scheduled_for, endpoint_id, tenant_id, attempt, source, claim_token, worker_id, claimed_at, started_at, finished_at,
		                  status, reason_code, dns_us, connect_us, tls_us, wait_us, transfer_us, response_bytes, truncated, next_run_at,
		                  next_source, version, failure_count)
		VALUES ($1, $2, $3, '00000000-0000-0000-0000-000000000001', 1, 'baseline-interval', $4, $5, $6, $7, $8, 'succeeded', 'http_status',
		        0, 0, 0, 0, 0, 0, false, $9, 'baseline-interval', 1, 0)`,
		s.id(n), s.slot(n), s.endpoint, 2*n+1, s.worker, s.slot(n).Add(-time.Second), started, ended, s.slot(n+1))
	s.requests = append(s.requests, audit.Request{
		RunID: s.id(n).String(), Attempt: 1, Fence: int64(2*n + 1), ScheduledFor: s.slot(n), Arrived: started, Ended: ended, Accepted: true,
	})
}

// skip records the n-th to the m-th due time as skipped, in place of their runs.
func (s *story) skip(n, m int) {
	s.t.Helper()
	for i := n; i <= m; i++ {
		s.exec("DELETE FROM runs WHERE id = $1", s.id(i))
	}
	s.requests = s.requests[:0]
	s.exec(`
		INSERT INTO runs (id, scheduled_for, endpoint_id, tenant_id, attempt, source, claim_token, worker_id, claimed_at, started_at, finished_at,
		                  status, reason_code, dns_us, connect_us, tls_us, wait_us, transfer_us, response_bytes, truncated, version,
		                  failure_count, skipped_from, skipped_count)
		VALUES ($1, $2, $3, '00000000-0000-0000-0000-000000000001', 0, 'baseline-interval', 0, gen_random_uuid(), $5, $5, $5, 'skipped',
		        'overlap_skipped', 0, 0, 0, 0, 0, 0, false, 1, 0, $4, $6)`,
		runs.NewID(s.slot(m), s.endpoint, 0, 0), s.slot(m), s.endpoint, s.slot(n), s.slot(m).Add(time.Second), m-n+1)
}

// repeats lets the run of the second due time end by a shutdown, and another one take its place 2 s
// later, as an infrastructure attempt.
func (s *story) repeats(attempt int) {
	s.t.Helper()
	s.exec(`UPDATE endpoints SET spec = spec || '{"minIntervalMs": 1000}'`)
	began, again := s.slot(1), s.slot(1).Add(2*time.Second)
	s.exec(`
		INSERT INTO runs
		SELECT (jsonb_populate_record(r, jsonb_build_object('id', $2::uuid, 'infra_attempt', $3::int, 'claim_token', 4))).*
		FROM runs r WHERE id = $1`, s.id(1), runs.NewID(began, s.endpoint, 1, attempt), attempt)
	s.exec("UPDATE runs SET claimed_at = $1, started_at = $1, finished_at = $2 WHERE infra_attempt > 0", again, again.Add(100*time.Millisecond))
	s.exec("UPDATE runs SET status = 'lost', reason_code = 'shutdown', next_run_at = $2 WHERE id = $1", s.id(1), again)
	s.requests = append(s.requests, audit.Request{
		RunID: runs.NewID(began, s.endpoint, 1, attempt).String(), Attempt: 1, Fence: 4, ScheduledFor: began, Arrived: again,
		Ended: again.Add(100 * time.Millisecond), Accepted: true,
	})
}

// servesEarlier makes the third run one of a cron that stands for an occurrence before the instant
// that was decided for it.
func (s *story) servesEarlier(catchUp string) {
	s.t.Helper()
	s.exec(`UPDATE endpoints SET spec = spec - 'baselineIntervalMs' || jsonb_build_object('baselineCron', '0 0 1 1 *', 'catchUp', $1::text)`, catchUp)
	missed := s.slot(2).Add(-every / 2)
	s.exec("UPDATE runs SET id = $2, scheduled_for = $3, source = 'clamped-min' WHERE id = $1", s.id(2), runs.NewID(missed, s.endpoint, 1, 0), missed)
	s.requests = s.requests[:0]
}

// overrun lets the run of the second due time last until after the third, which is recorded as
// skipped.
func (s *story) overrun() {
	s.t.Helper()
	s.skip(2, 2)
	s.exec("UPDATE runs SET finished_at = $2, next_run_at = $3 WHERE id = $1", s.id(1), s.slot(2).Add(time.Second), s.slot(3))
}

// queues makes the run of the second due time last until after the third. The run of the third
// follows at once.
func (s *story) queues() {
	s.t.Helper()
	s.exec(`UPDATE endpoints SET spec = spec - 'minIntervalMs' || '{"overlap": "queue"}'`)
	ended := s.slot(2).Add(3 * time.Second)
	s.exec("UPDATE runs SET finished_at = $2, next_run_at = $2 WHERE id = $1", s.id(1), ended)
	s.exec("UPDATE runs SET claimed_at = $2, started_at = $2, finished_at = $2 WHERE id = $1", s.id(2), ended)
	s.requests = s.requests[:0]
}

// startExpired lets the run of the second due time start late and send nothing. It ends after the
// third, which is recorded as skipped: it counts from the due time, because from the late start
// another one would have passed.
func (s *story) startExpired() {
	s.t.Helper()
	s.skip(2, 2)
	started, ended := s.slot(1).Add(1600*time.Millisecond), s.slot(2).Add(1700*time.Millisecond)
	s.exec(`
		UPDATE runs SET status = 'skipped', reason_code = 'start_expired', started_at = $2, finished_at = $3, next_run_at = $4
		WHERE id = $1`, s.id(1), started, ended, s.slot(3))
}

// catchesUpOnce makes the endpoint a cron of ten seconds with a second run that lasts until after
// the fourth occurrence. The third is recorded as skipped, and a run at once stands for the fourth.
func (s *story) catchesUpOnce() {
	s.t.Helper()
	s.skip(2, 2)
	s.exec(`UPDATE endpoints SET spec = spec - ARRAY ['baselineIntervalMs', 'minIntervalMs'] || '{"baselineCron": "*/10 * * * * *"}'`)
	s.exec("UPDATE runs SET scheduled_for = date_bin('10 s', scheduled_for, '2000-01-01'), skipped_from = date_bin('10 s', skipped_from, '2000-01-01')")
	ended := s.slot(3).Add(2 * time.Second)
	s.exec("UPDATE runs SET finished_at = $2, next_run_at = $2 WHERE id = $1", s.id(1), ended)
	s.exec("UPDATE runs SET started_at = $2, finished_at = $2 WHERE id = $1", s.id(3), ended)
}

// waitsForTheMinimum lets the second run be planned two seconds after its due time, because of the
// minimum, start in time by that, and end after the third due time, which counts from the second
// and is recorded.
func (s *story) waitsForTheMinimum() {
	s.t.Helper()
	s.skip(2, 2)
	planned := s.slot(1).Add(2 * time.Second)
	s.exec("UPDATE runs SET started_at = started_at + interval '2 s', next_run_at = $2 WHERE id = $1", s.id(0), planned)
	s.exec("UPDATE runs SET finished_at = finished_at + interval '3 s' WHERE id = $1", s.id(0))
	s.exec("UPDATE runs SET started_at = $2, finished_at = $3, next_run_at = $4 WHERE id = $1",
		s.id(1), planned.Add(30*time.Millisecond), s.slot(2).Add(time.Second), s.slot(3))
}

// live adds a live run of the due time after the last one. Its lock ends after lock.
func (s *story) live(lock time.Duration) {
	s.t.Helper()
	s.exec(`
		UPDATE schedules
		SET run_id = $2, slot = $3, attempt = 1, source = 'baseline-interval', claim_token = $4, claimed_by = $5, claimed_at = $3, started_at = $3,
		    deadline_at = $3, due_at = clock_timestamp() + $6::bigint * interval '1 ms', tenant_id = '00000000-0000-0000-0000-000000000001'
		WHERE endpoint_id = $1`,
		s.endpoint, s.id(told), s.slot(told), 2*told+1, s.worker, lock.Milliseconds())
}

// decide adds a decision outside a finish.
func (s *story) decide(cause string, at, next time.Time) {
	s.t.Helper()
	s.exec(`
		INSERT INTO decisions (endpoint_id, decided_at, cause, author, version, next_run_at, next_source, next_steps, input, claim_token, basis)
		VALUES ($1, $2, $3, '', 1, $4, 'baseline-interval', '[]', '{}', 0, '{}')`, s.endpoint, at, cause, next)
}

func (s *story) audit() audit.Report {
	s.t.Helper()
	r, err := audit.Run(s.t.Context(), s.url, audit.Options{Requests: s.requests, Freezes: s.freezes, Quiet: s.quiet})
	require.NoError(s.t, err)
	return r
}
