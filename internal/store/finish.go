package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/dispatch"
	"rubato/internal/runs"
	"rubato/internal/store/dbsqlc"
)

// Finish implements dispatch.Executions.
func (s *Executions) Finish(ctx context.Context, f dispatch.Finish) (done dispatch.Finished, err error) {
	var skipped []time.Time
	days := func() []time.Time { return append(runDays(f.Runs), skipped...) }
	finish := func() error {
		return s.db.hotTx(ctx, func(tx pgx.Tx) error {
			b := newBatch(s.db, f.Runs)
			defer b.release()
			b.worker, b.keep, b.lockTTL = f.Worker, f.Keep, f.LockTTL
			gone, err := s.end(ctx, tx, b)
			if err != nil {
				return err
			}
			err = b.settle(ctx, tx)
			skipped = daysOf(b.skipped)
			if err != nil {
				return err
			}
			done = dispatch.Finished{Kept: b.kept, Decided: b.decided, Skipped: b.skipped}
			return s.recall(ctx, tx, gone, &done)
		})
	}
	return done, s.db.withPartitions(ctx, days, finish)
}

// end takes the live rows of runs away and reads what their settlement needs, in one round trip. Those that were still the caller's
// to finish are in the batch afterwards, and know when they were claimed; those that were gone come back.
func (s *Executions) end(ctx context.Context, tx pgx.Tx, b *batch) (gone []runs.Run, err error) {
	list, params := b.runs, &b.ends
	for _, run := range list {
		params.EndpointIds = append(params.EndpointIds, run.EndpointID)
		params.RunIds = append(params.RunIds, run.ID)
		params.Tokens = append(params.Tokens, run.ClaimToken)
	}
	params.Now = s.db.now()
	var rows []*dbsqlc.LiveRunFinishRow
	end := func(q dbsqlc.DBTX) (err error) {
		rows, err = s.db.q.LiveRunFinish(ctx, q, *params)
		return err
	}
	if err := pipeline(ctx, tx, append([]statement{end}, b.reads(ctx, params.EndpointIds)...)...); err != nil {
		return nil, fmt.Errorf("ending %d live runs: %w", len(list), err)
	}
	for _, row := range rows {
		b.live[row.RunID] = row
	}
	for i := range list {
		row := b.live[list[i].ID]
		if row == nil {
			gone = append(gone, list[i])
			continue
		}
		list[i].ClaimedAt = row.ClaimedAt
		bySameClock(&list[i], row)
	}
	if len(gone) > 0 {
		b.runs = slices.DeleteFunc(slices.Clone(list), func(run runs.Run) bool { return b.live[run.ID] == nil })
	}
	return gone, nil
}

// bySameClock moves the start and the end that a worker reports to where the database's clock allows them: not before the row of the live
// run, and not after the statement that ends it. A worker counts both on its own monotonic clock, and one that is slewed would have a run
// end after the next one started.
func bySameClock(run *runs.Run, row *dbsqlc.LiveRunFinishRow) {
	for _, at := range []*time.Time{&run.StartedAt, &run.FinishedAt} {
		if at.After(row.Now) {
			*at = row.Now
		}
		if at.Before(row.StartedAt) { // The database's clock was set back since.
			*at = row.StartedAt
		}
	}
}
