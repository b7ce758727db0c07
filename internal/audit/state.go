package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/endpoints"
	"rubato/internal/runs"
)

// state is the data read from a database. Instants are database time.
type state struct {
	options Options
	now     time.Time
	// since is the start of the history that was read.
	since     time.Time
	endpoints map[[16]byte]*endpoint
	// runs shares its elements with the endpoints, and includes live runs.
	runs map[runs.ID]*run
	// twice holds the runs with more than one end.
	twice []runs.ID
	// lateAnswers counts responses after the settlement of their run.
	lateAnswers int
}

// endpoint is the data of one endpoint.
type endpoint struct {
	id      [16]byte
	version int64
	min     time.Duration
	max     time.Duration
	jitter  time.Duration
	// interval is that of the baseline; 0: the baseline is a cron.
	interval time.Duration
	// cron is nil for an interval, and for an expression that does not parse.
	cron cron
	// catchesUp: runs every missed occurrence.
	catchesUp bool
	// runsOnce: runs once for all missed occurrences.
	runsOnce bool
	// queues: due times that pass during a run wait for its end.
	queues bool
	// overlaps: runs may be live at once, each of its own due time.
	overlaps bool
	// hinted: a hint was in force in the window.
	hinted bool
	// schedule is nil for an archived endpoint.
	schedule *schedule
	// runs are the finished runs by fence.
	runs []*run
	// unclaimed are the runs that were canceled or withdrawn while they waited. They have no fence
	// and no start, and nothing was sent.
	unclaimed []*run
	live      []*run
	// skipped is sorted by time.
	skipped []skip
	// decisions are those outside a finish, sorted by time.
	decisions []decision
}

// cron is a parsed cron expression.
type cron interface {
	Next(after time.Time) time.Time
}

// skip is a record of consecutive due times that passed without a run.
type skip struct {
	ID         runs.ID
	From, To   time.Time
	Count      int64
	Reason     runs.Reason
	RecordedAt time.Time
}

type schedule struct {
	PlannedAt time.Time
	Slot      time.Time
	Token     int64
	Paused    bool
}

// run is one execution, live or finished.
type run struct {
	ID         runs.ID
	EndpointID [16]byte
	Slot       time.Time
	Attempt    int
	// Infra is the number of the infrastructure attempt.
	Infra     int
	Source    string
	Token     int64
	WorkerID  [16]byte
	ClaimedAt time.Time
	StartedAt time.Time
	// FinishedAt is zero for a live run.
	FinishedAt time.Time
	Status     runs.Status
	Reason     runs.Reason
	NextRunAt  *time.Time
	Version    int64
	// Failures counts consecutive failures, including this run.
	Failures int
	// Deadline and Lock are set for live runs only, because the history does not keep them.
	Deadline time.Time
	Lock     time.Time
	// Detached is set for a live run with a row of its own.
	Detached bool
}

// first reports whether this is the first run of its slot.
func (r *run) first() bool { return r.Attempt == 1 && r.Infra == 0 }

// unclaimed reports whether the run ended before a worker claimed it, as one-off runs and calls
// can. Such a row has no fence, no worker, a status of a run that was not sent, and one instant for
// claim and end. The fence alone does not decide, because it may be missing in the row of a run
// that was sent.
func (r *run) unclaimed() bool {
	return r.Token == 0 && r.WorkerID == [16]byte{} && (r.Source == "manual" || r.Source == "call") &&
		(r.Status == runs.Skipped || r.Status == runs.Canceled) && r.ClaimedAt.Equal(r.FinishedAt)
}

type decision struct {
	EndpointID [16]byte
	At         time.Time
	Cause      string
	NextRunAt  time.Time
}

// read reads the state in the transaction.
func read(ctx context.Context, tx pgx.Tx, o Options) (*state, error) {
	s := &state{
		options:   o,
		endpoints: map[[16]byte]*endpoint{},
		runs:      map[runs.ID]*run{},
	}
	if err := tx.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&s.now); err != nil {
		return nil, fmt.Errorf("reading the database's time: %w", err)
	}
	s.now = s.now.UTC()
	s.since = s.now.Add(-o.Window)
	for _, part := range []struct {
		what string
		read func(context.Context, pgx.Tx) error
	}{
		{"endpoints", s.readEndpoints},
		{"the history", s.readRuns},
		{"live runs", s.readLive},
		{"decisions", s.readDecisions},
		{"runs that ended twice", s.readTwice},
	} {
		if err := part.read(ctx, tx); err != nil {
			return nil, fmt.Errorf("reading %s: %w", part.what, err)
		}
	}
	return s, nil
}

// endpoint returns an endpoint. It creates one without configuration for rows of an unknown
// endpoint.
func (s *state) endpoint(id [16]byte) *endpoint {
	e := s.endpoints[id]
	if e == nil {
		e = &endpoint{id: id}
		s.endpoints[id] = e
	}
	return e
}

func (s *state) readEndpoints(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `
		SELECT e.id, e.version, e.spec, s.planned_at, s.slot, s.claim_token,
		       coalesce(s.paused_until > clock_timestamp(), false),
		       EXISTS (SELECT 1 FROM hints h WHERE h.endpoint_id = e.id AND coalesce(h.ended_at, h.expires_at) >= $1)
		FROM endpoints e
		         LEFT JOIN schedules s ON s.endpoint_id = e.id`, s.since)
	if err != nil {
		return err
	}
	var id [16]byte
	var version int64
	var document []byte
	var planned, slot *time.Time
	var token *int64
	var paused, hinted bool
	fields := []any{
		&id, &version, &document, &planned, &slot, &token, &paused, &hinted,
	}
	_, err = pgx.ForEachRow(rows, fields, func() error {
		var spec endpoints.Spec
		if err := spec.UnmarshalJSON(document); err != nil {
			return fmt.Errorf("reading the configuration of endpoint %s: %w", endpoints.ID(id), err)
		}
		e := s.endpoint(id)
		e.version, e.min, e.max, e.jitter, e.interval = version, spec.MinInterval, spec.MaxInterval, spec.Jitter, spec.BaselineInterval
		e.catchesUp, e.runsOnce = spec.BaselineCron != "" && spec.CatchUp == "all", spec.BaselineCron != "" && spec.CatchUp == "once"
		e.overlaps = spec.Overlap == "allow"
		e.queues = spec.Overlap == "queue" || e.overlaps
		e.hinted = hinted
		if c, err := spec.ParseCron(id); err == nil && c != nil {
			e.cron = c
		}
		if planned != nil {
			e.schedule = &schedule{
				PlannedAt: planned.UTC(),
				Slot:      slot.UTC(),
				Token:     *token,
				Paused:    paused,
			}
		}
		return nil
	})
	return err
}

// readRuns reads the finished runs in fence order. Rows with skipped due times become skip records.
func (s *state) readRuns(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `
		SELECT id, endpoint_id, scheduled_for, attempt, infra_attempt, source, claim_token, worker_id, claimed_at, started_at, finished_at, status,
		       reason_code, next_run_at, version, failure_count, skipped_from, coalesce(skipped_count, 0)
		FROM runs
		WHERE scheduled_for >= $1
		ORDER BY endpoint_id, claim_token, started_at`, s.since)
	if err != nil {
		return err
	}
	var r run
	var from *time.Time
	var count int64
	fields := []any{
		&r.ID, &r.EndpointID, &r.Slot, &r.Attempt, &r.Infra, &r.Source, &r.Token, &r.WorkerID, &r.ClaimedAt, &r.StartedAt, &r.FinishedAt,
		&r.Status, &r.Reason, &r.NextRunAt, &r.Version, &r.Failures, &from, &count,
	}
	_, err = pgx.ForEachRow(rows, fields, func() error {
		one, e := r, s.endpoint(r.EndpointID)
		if from != nil {
			e.skipped = append(e.skipped, skip{
				ID:         r.ID,
				From:       from.UTC(),
				To:         r.Slot.UTC(),
				Count:      count,
				Reason:     r.Reason,
				RecordedAt: r.FinishedAt.UTC(),
			})
			return nil
		}
		s.runs[one.ID] = &one
		if one.unclaimed() {
			e.unclaimed = append(e.unclaimed, &one)
		} else {
			e.runs = append(e.runs, &one)
		}
		return nil
	})
	return err
}

func (s *state) readLive(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `
		SELECT run_id, coalesce(owner_id, endpoint_id), slot, attempt, infra_attempt, source, claim_token, worker_id, claimed_at, started_at, deadline_at,
		       locked_until, owner_id IS NOT NULL
		FROM live_runs
		ORDER BY claim_token`)
	if err != nil {
		return err
	}
	var r run
	fields := []any{
		&r.ID, &r.EndpointID, &r.Slot, &r.Attempt, &r.Infra, &r.Source, &r.Token, &r.WorkerID, &r.ClaimedAt, &r.StartedAt, &r.Deadline,
		&r.Lock, &r.Detached,
	}
	_, err = pgx.ForEachRow(rows, fields, func() error {
		one := r
		one.Status = runs.Running
		e := s.endpoint(one.EndpointID)
		e.live = append(e.live, &one)
		if s.runs[one.ID] == nil {
			s.runs[one.ID] = &one
		}
		return nil
	})
	return err
}

func (s *state) readDecisions(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `
		SELECT endpoint_id, decided_at, cause, next_run_at
		FROM decisions
		WHERE decided_at >= $1
		ORDER BY endpoint_id, id`, s.since)
	if err != nil {
		return err
	}
	var d decision
	_, err = pgx.ForEachRow(rows, []any{&d.EndpointID, &d.At, &d.Cause, &d.NextRunAt}, func() error {
		e := s.endpoint(d.EndpointID)
		e.decisions = append(e.decisions, d)
		return nil
	})
	return err
}

// readTwice reads runs with more than one end. It needs a query of its own, because the map of runs
// holds one per ID.
func (s *state) readTwice(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `
		SELECT id FROM runs WHERE scheduled_for >= $1 GROUP BY id HAVING count(*) > 1
		UNION ALL
		SELECT run_id FROM run_events WHERE scheduled_for >= $1 AND kind = 'settled' GROUP BY run_id HAVING count(*) > 1`, s.since)
	if err != nil {
		return err
	}
	if s.twice, err = pgx.CollectRows(rows, pgx.RowTo[runs.ID]); err != nil {
		return err
	}
	return tx.QueryRow(ctx, "SELECT count(*) FROM run_events WHERE scheduled_for >= $1 AND kind = 'late_result'", s.since).Scan(&s.lateAnswers)
}
