package chaos

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"rubato/client"
	"rubato/internal/audit"
)

const (
	stopSignal = syscall.SIGSTOP
	contSignal = syscall.SIGCONT

	// onSchedule is the greatest lateness of a due time that still counts as on schedule.
	onSchedule = 1500 * time.Millisecond
)

// verdict describes the course of a scenario.
type verdict struct {
	name  string
	fault string
	fired string
	ended time.Time     // end of the fault
	lag   time.Duration // lateness of the latest start before the fault
	// extra returns the requests to other targets once everything has ended; nil: there are no
	// others.
	extra func() []audit.Request
}

// conclude waits until every endpoint is on schedule, pauses everything, waits for live runs, and
// audits. Breaches fail the test.
func (s *stack) conclude(v verdict) audit.Report {
	s.t.Helper()
	s.awaitOnSchedule()
	s.quiesce()
	requests := s.target.requests()
	if v.extra != nil {
		requests = append(requests, v.extra()...)
	}
	report, err := audit.Run(s.t.Context(), s.cluster.URL(), audit.Options{Requests: requests, Freezes: s.freezes, LockTTL: lockTTL, Quiet: true})
	require.NoError(s.t, err)
	deck.add(scenario{
		Name: v.name, Fault: v.fault, Fired: v.fired, RecoveryMs: s.recovered(v).Milliseconds(), Rejected: s.target.refusals(), Report: report,
	})
	if report.Breaches() > 0 {
		var card strings.Builder
		require.NoError(s.t, report.WriteCard(&card))
		s.t.Errorf("%s: promises were broken:\n%s", v.name, card.String())
	}
	s.auditByProgram()
	require.Positive(s.t, report.Counts.Starts)
	for _, i := range []audit.Invariant{
		audit.OneLiveRun, audit.NoLostDueTime, audit.FencesIncrease, audit.OneRequest, audit.NeverEarly, audit.PauseHolds,
	} {
		require.Positive(s.t, report.Check(i).Checked, "nothing could tell whether %s holds", i)
	}
	return report
}

// auditByProgram runs `rubato audit` as an operator does, without the freezes and without the
// target's log. It must find nothing and exit with 0.
func (s *stack) auditByProgram() {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), filepath.Join(binaries, "rubato"), "audit")
	cmd.Env = append(s.environ(nil), "PATH="+os.Getenv("PATH"), "HOME="+s.t.TempDir(), "DATABASE_URL="+s.cluster.URL())
	out, err := cmd.CombinedOutput()
	require.NoError(s.t, err, "rubato audit:\n%s", out)
	require.Contains(s.t, string(out), "| promise | checked | breaches |")
}

// awaitOnSchedule waits until no due time is late, and no claim belongs to a silent worker.
func (s *stack) awaitOnSchedule() {
	s.t.Helper()
	const silent = 3 * time.Second // A worker beats every 2 s.
	calm := time.Now()
	eventually(s.t, "every endpoint to be on schedule again", func() bool {
		late := s.count(`
			SELECT count(*) FROM schedules s
			WHERE s.planned_at < clock_timestamp() - $1::bigint * interval '1 ms'
			  AND NOT EXISTS (SELECT 1 FROM live_runs l JOIN workers w ON w.id = l.worker_id
			                  WHERE l.endpoint_id = s.endpoint_id AND w.heartbeat_at > clock_timestamp() - $2::bigint * interval '1 ms')`,
			onSchedule.Milliseconds(), silent.Milliseconds())
		if late > 0 {
			calm = time.Now()
		}
		return time.Since(calm) > silent+time.Second
	})
}

// pause pauses one endpoint.
func (s *stack) pause(ctx context.Context, id string) error {
	_, err := answer[client.Endpoint](s.api.PauseEndpoint(ctx, id, client.PauseEndpointJSONRequestBody{}))
	return err
}

// pauseAll pauses every endpoint.
func (s *stack) pauseAll() {
	s.t.Helper()
	group, ctx := errgroup.WithContext(s.t.Context())
	group.SetLimit(8)
	for _, id := range s.ids {
		group.Go(func() error { return s.pause(ctx, id) })
	}
	require.NoError(s.t, group.Wait())
}

// pauseAtRest pauses idle endpoints until the ledger has a pause. A pause during a live run takes
// effect when the run finishes, and with such pauses alone the audit could not check that pauses
// hold.
func (s *stack) pauseAtRest() {
	s.t.Helper()
	eventually(s.t, "a pause of an endpoint at rest", func() bool {
		if s.count("SELECT count(*) FROM decisions WHERE cause = 'pause'") > 0 {
			return true
		}
		var id string
		err := s.pool.QueryRow(s.t.Context(), `
			SELECT 'ep_' || endpoint_id::text FROM schedules s
			WHERE paused_until IS NULL AND owner_id IS NULL AND planned_at > clock_timestamp() + interval '200 ms'
			  AND NOT EXISTS (SELECT FROM live_runs l WHERE l.endpoint_id = s.endpoint_id)
			ORDER BY planned_at DESC LIMIT 1`).Scan(&id)
		if errors.Is(err, pgx.ErrNoRows) {
			return false
		}
		require.NoError(s.t, err)
		require.NoError(s.t, s.pause(s.t.Context(), id))
		return false
	})
}

// quiesce pauses every endpoint and waits until no run is live.
func (s *stack) quiesce() {
	s.t.Helper()
	s.pauseAtRest()
	s.pauseAll()
	s.target.release()
	// A start is never sent if its commit was cut off. The sweeper settles it when its limit is
	// over.
	eventually(s.t, "every run to end", func() bool {
		return s.count("SELECT count(*) FROM live_runs") == 0
	})
	eventually(s.t, "every request to end", func() bool { return s.target.open() == 0 })
}

// lag returns the lateness of the latest start so far. It measures the machine, because other
// programs take processor time from the workers.
func (s *stack) lag() time.Duration {
	s.t.Helper()
	return time.Duration(s.count(`
		SELECT coalesce(max(extract(epoch FROM started_at - scheduled_for) * 1e9), 0)::bigint
		FROM (SELECT started_at, scheduled_for, attempt FROM runs UNION ALL SELECT started_at, slot, attempt FROM live_runs) AS started
		WHERE attempt = 1`))
}

// recovered returns the time from the end of a fault to the last start that was later than the
// starts before the fault by more than a second.
func (s *stack) recovered(v verdict) time.Duration {
	s.t.Helper()
	var last *time.Time
	require.NoError(s.t, s.pool.QueryRow(s.t.Context(), `
		SELECT max(started_at) FROM runs
		WHERE started_at > $1 AND started_at - scheduled_for > interval '1 s' + $2 AND attempt = 1`, v.ended, v.lag).Scan(&last))
	if last == nil {
		return 0
	}
	return last.Sub(v.ended)
}
