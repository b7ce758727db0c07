package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
)

const (
	// pipelineBatch is how many rows one statement claims or records: trials show no gain from more.
	pipelineBatch = 500
	// pipelineAhead is how far ahead of their due time rows are claimed.
	pipelineAhead = time.Second
	// pipelineIdle is how long the claimer rests when it found less than it could take.
	pipelineIdle = 50 * time.Millisecond
	// pipelineGather is how long a result may wait for others to be recorded with.
	pipelineGather = 5 * time.Millisecond
	// pipelineRecorders is how many statements record at once: while one waits for the disk, the next is being written.
	pipelineRecorders = 3
)

// pipelineSchema is all that the ideal pipeline keeps: a row per job, rewritten in place, for which fillfactor leaves room, and a row
// per run.
const pipelineSchema = `
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
	pipelineClaim = `
UPDATE ideal_jobs SET due_at = planned_at + interval '60 s'
WHERE id = ANY (ARRAY(SELECT id FROM ideal_jobs WHERE due_at <= clock_timestamp() + $1::interval
                      ORDER BY due_at LIMIT $2 FOR UPDATE SKIP LOCKED))
RETURNING id, planned_at, url`

	pipelineReplan = `
UPDATE ideal_jobs SET due_at = planned_at + interval '1 year', planned_at = planned_at + interval '1 year' WHERE id = ANY ($1::int[])`

	pipelineRecord = `
INSERT INTO ideal_runs SELECT * FROM unnest($1::int[], $2::timestamptz[], $3::smallint[], $4::timestamptz[], $5::timestamptz[])`
)

// fillPipeline makes the table of the ideal pipeline and a row for each job.
func fillPipeline(ctx context.Context, d *database, t task) error {
	if _, err := d.pool.Exec(ctx, pipelineSchema); err != nil {
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

// outcome is how a call ended.
type outcome struct {
	job

	status            int
	started, finished time.Time
}

// pipeline is the least that a durable scheduler on Postgres can do: claim due rows in batches, call each at its due time, record the
// results and plan what follows in batches. It fences nothing, notices no dead worker, decides nothing and guards no address: what
// is slower than this pays for those.
type pipeline struct {
	task    task
	pool    *pgxpool.Pool
	client  *caller
	claimed chan []job
	ready   chan job
	results chan outcome
}

// pipelineFrom is the process of the ideal pipeline.
func pipelineFrom(ctx context.Context, text []byte, tell func(news) error) error {
	t, err := taskOf[task](text)
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, t.Database)
	if err != nil {
		return fmt.Errorf("connecting to the database: %w", err)
	}
	defer pool.Close()
	p := &pipeline{
		task: t, pool: pool, client: newCaller(t.Callers),
		claimed: make(chan []job, 4), ready: make(chan job, t.Callers), results: make(chan outcome, 4*pipelineBatch),
	}
	defer p.client.close()
	if err := pool.Ping(ctx); err != nil {
		return fmt.Errorf("connecting to the database: %w", err)
	}
	if err := tell(news{}); err != nil {
		return err
	}
	return p.run(ctx)
}

// run works until ctx ends. It does not drain: when it is stopped, everything has been recorded.
func (p *pipeline) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.claimLoop(ctx) })
	group.Go(func() error { return p.waitLoop(ctx) })
	for range p.task.Callers {
		group.Go(func() error { return p.callLoop(ctx) })
	}
	for range pipelineRecorders {
		group.Go(func() error { return p.recordLoop(ctx) })
	}
	return group.Wait()
}

// claimLoop claims as long as the batches before are taken.
func (p *pipeline) claimLoop(ctx context.Context) error {
	for {
		batch, err := p.claim(ctx)
		if err != nil {
			return err
		}
		if len(batch) > 0 {
			select {
			case p.claimed <- batch:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if len(batch) < pipelineBatch && !await(ctx, time.Now().Add(pipelineIdle)) {
			return ctx.Err()
		}
	}
}

func (p *pipeline) claim(ctx context.Context) ([]job, error) {
	rows, err := p.pool.Query(ctx, pipelineClaim, pipelineAhead, pipelineBatch)
	if err != nil {
		return nil, fmt.Errorf("claiming: %w", err)
	}
	batch, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (j job, err error) {
		return j, row.Scan(&j.n, &j.due, &j.url)
	})
	if err != nil {
		return nil, fmt.Errorf("claiming: %w", err)
	}
	slices.SortFunc(batch, func(a, b job) int { return a.due.Compare(b.due) })
	return batch, nil
}

// waitLoop hands each job on when it is due.
func (p *pipeline) waitLoop(ctx context.Context) error {
	for {
		select {
		case batch := <-p.claimed:
			for _, j := range batch {
				if !await(ctx, j.due) {
					return ctx.Err()
				}
				select {
				case p.ready <- j:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *pipeline) callLoop(ctx context.Context) error {
	for {
		select {
		case j := <-p.ready:
			started := time.Now()
			status, err := p.client.call(ctx, j)
			if err != nil {
				return err
			}
			select {
			case p.results <- outcome{job: j, status: status, started: started, finished: time.Now()}:
			case <-ctx.Done(): // Nobody may record any more.
				return ctx.Err()
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// recordLoop records what it can gather within a moment.
func (p *pipeline) recordLoop(ctx context.Context) error {
	batch := make([]outcome, 0, pipelineBatch)
	for {
		batch = batch[:0]
		select {
		case o := <-p.results:
			batch = append(batch, o)
		case <-ctx.Done():
			return ctx.Err()
		}
		moment := time.NewTimer(pipelineGather)
		for full := false; !full && len(batch) < pipelineBatch; {
			select {
			case o := <-p.results:
				batch = append(batch, o)
			case <-moment.C:
				full = true
			}
		}
		moment.Stop()
		if err := p.record(ctx, batch); err != nil {
			return err
		}
	}
}

// record writes a batch in one transaction, sent in one piece.
func (p *pipeline) record(ctx context.Context, batch []outcome) error {
	ids, statuses := make([]int32, len(batch)), make([]int16, len(batch))
	planned, started, finished := make([]time.Time, len(batch)), make([]time.Time, len(batch)), make([]time.Time, len(batch))
	for i, o := range batch {
		ids[i], statuses[i] = int32(o.n), int16(o.status) //nolint:gosec // Counted from zero; three digits.
		planned[i], started[i], finished[i] = o.due, o.started, o.finished
	}
	var both pgx.Batch
	both.Queue(pipelineReplan, ids)
	both.Queue(pipelineRecord, ids, planned, statuses, started, finished)
	if err := p.pool.SendBatch(ctx, &both).Close(); err != nil {
		return fmt.Errorf("recording %d results: %w", len(batch), err)
	}
	return nil
}
