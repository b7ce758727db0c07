package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// idealSchema is the schema of the ideal pipeline: a row per job and a row per run. Job rows are
// updated in place (HOT), for which fillfactor reserves space.
const idealSchema = `
CREATE TABLE ideal_jobs (
    id         integer PRIMARY KEY,
    due_at     timestamptz NOT NULL, -- claimable from this instant on
    planned_at timestamptz NOT NULL,
    url        text NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX ideal_jobs_due ON ideal_jobs (due_at);
CREATE TABLE ideal_runs (
    job_id      integer NOT NULL,
    planned_at  timestamptz NOT NULL,
    status_code smallint NOT NULL,
    started_at  timestamptz NOT NULL,
    finished_at timestamptz NOT NULL,
    PRIMARY KEY (job_id, planned_at)
)`

const (
	idealClaim = `
UPDATE ideal_jobs SET due_at = planned_at + interval '60 s'
WHERE id = ANY (ARRAY(SELECT id FROM ideal_jobs WHERE due_at <= clock_timestamp() + $1::interval
                      ORDER BY due_at LIMIT $2 FOR UPDATE SKIP LOCKED))
RETURNING id, planned_at, url`

	idealReplan = `
UPDATE ideal_jobs SET due_at = planned_at + interval '1 year', planned_at = planned_at + interval '1 year' WHERE id = ANY ($1::int[])`

	idealRecord = `
INSERT INTO ideal_runs SELECT * FROM unnest($1::int[], $2::timestamptz[], $3::smallint[], $4::timestamptz[], $5::timestamptz[])`
)

// fillIdeal creates the tables of the ideal pipeline and a row per job.
func fillIdeal(ctx context.Context, d *database, t task) error {
	if _, err := d.pool.Exec(ctx, idealSchema); err != nil {
		return fmt.Errorf("making the table of the ideal pipeline: %w", err)
	}
	_, err := d.pool.CopyFrom(ctx, pgx.Identifier{"ideal_jobs"}, []string{"id", "due_at", "planned_at", "url"},
		pgx.CopyFromSlice(t.Jobs, func(n int) ([]any, error) {
			return []any{n, t.dueOf(n), t.dueOf(n), fmt.Sprint(t.Target, n)}, nil
		}))
	if err != nil {
		return fmt.Errorf("filling the table of the ideal pipeline: %w", err)
	}
	return nil
}

// ideal is the ledger of a minimal durable scheduler on Postgres. It has no fencing, no recovery of
// dead workers, no governor and no egress guard. The difference to it is the price of these.
type ideal struct{ pool *pgxpool.Pool }

// idealFrom is the process of the ideal pipeline.
func idealFrom(ctx context.Context, text []byte, tell func(processMessage) error) error {
	t, err := taskOf[task](text)
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, t.Database)
	if err != nil {
		return fmt.Errorf("connecting to the database: %w", err)
	}
	defer pool.Close()
	p := newPipeline(ideal{pool}, t.Callers)
	defer p.client.close()
	if err := pool.Ping(ctx); err != nil {
		return fmt.Errorf("connecting to the database: %w", err)
	}
	if err := tell(processMessage{}); err != nil {
		return err
	}
	return p.run(ctx)
}

func (l ideal) claim(ctx context.Context) ([]job, error) {
	rows, err := l.pool.Query(ctx, idealClaim, pipelineAhead, pipelineBatch)
	if err != nil {
		return nil, fmt.Errorf("claiming: %w", err)
	}
	batch, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (j job, err error) {
		return j, row.Scan(&j.n, &j.due, &j.url)
	})
	if err != nil {
		return nil, fmt.Errorf("claiming: %w", err)
	}
	return batch, nil
}

// record writes a batch in one transaction and one round trip.
func (l ideal) record(ctx context.Context, batch []outcome) error {
	ids, statuses := make([]int32, len(batch)), make([]int16, len(batch))
	planned, started, finished := make([]time.Time, len(batch)), make([]time.Time, len(batch)), make([]time.Time, len(batch))
	for i, o := range batch {
		ids[i], statuses[i] = int32(o.n), int16(o.status)
		planned[i], started[i], finished[i] = o.due, o.started, o.finished
	}
	var both pgx.Batch
	both.Queue(idealReplan, ids)
	both.Queue(idealRecord, ids, planned, statuses, started, finished)
	if err := l.pool.SendBatch(ctx, &both).Close(); err != nil {
		return fmt.Errorf("recording %d results: %w", len(batch), err)
	}
	return nil
}
