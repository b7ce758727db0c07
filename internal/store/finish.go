package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/dispatch"
	"rubato/internal/runs"
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

// end locks the rows of runs and reads what their settlement needs, in one round trip. Runs that are still the caller's to finish are in
// the batch afterwards, with the instant of their claim; the others, which were settled, come back.
func (s *Executions) end(ctx context.Context, tx pgx.Tx, b *batch) (gone []runs.Run, err error) {
	list := b.runs
	ids := make([][16]byte, len(list))
	for i, run := range list {
		ids[i] = run.EndpointID
	}
	if err := pipeline(ctx, tx, b.reads(ctx, ids)...); err != nil {
		return nil, fmt.Errorf("locking the rows of %d runs: %w", len(list), err)
	}
	for _, row := range b.schedules {
		if row.RunID != nil {
			b.running[runKey{row.EndpointID, *row.RunID, row.ClaimToken}] = *row.ClaimedAt
		}
	}
	for i := range list {
		at, running := b.running[runKeyOf(list[i])]
		if !running {
			gone = append(gone, list[i])
			continue
		}
		list[i].ClaimedAt = at
	}
	if len(gone) > 0 {
		b.runs = slices.DeleteFunc(slices.Clone(list), func(run runs.Run) bool { _, running := b.running[runKeyOf(run)]; return !running })
	}
	return gone, nil
}

// runKey names a running run by its row and fence.
type runKey struct {
	endpoint, run [16]byte
	token         int64
}

func runKeyOf(run runs.Run) runKey { return runKey{run.EndpointID, run.ID, run.ClaimToken} }
