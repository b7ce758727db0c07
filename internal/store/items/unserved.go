package items

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"rubato/internal/governor"
	"rubato/internal/runs"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/history"
	"rubato/internal/store/pg"
	"rubato/internal/zombie"
)

// sweeperID is the worker ID in the records of due times that the sweeper skips.
var sweeperID = [16]byte{}

// Unserved implements zombie.Workers.
func (s *Sweeps) Unserved(ctx context.Context, over time.Duration) ([]zombie.TagSet, error) {
	rows, err := s.db.Q.TagSetMark(ctx, s.db.Sweeps, dbsqlc.TagSetMarkParams{Now: s.db.Now(), OverMs: over.Milliseconds()})
	if err != nil {
		return nil, fmt.Errorf("looking for tag sets without a worker: %w", pg.Translate(err))
	}
	sets := make([]zombie.TagSet, len(rows))
	for i, row := range rows {
		sets[i] = zombie.TagSet{
			ID:       row.ID,
			Required: row.Required,
			Missing:  row.Missing,
		}
	}
	return sets, nil
}

// SkipUnserved implements zombie.Workers. Each due time is one transaction, so that one bad row
// does not block the others.
func (s *Sweeps) SkipUnserved(ctx context.Context, sets []zombie.TagSet, limit int) (skipped int, err error) {
	params := dbsqlc.ScheduleListUnservedParams{Now: s.db.Now(), MaxRows: int32(limit)}
	texts := map[int32]string{}
	for _, set := range sets {
		params.TagSetIds = append(params.TagSetIds, set.ID)
		texts[set.ID] = unservedText(set)
	}
	rows, err := s.db.Q.ScheduleListUnserved(ctx, s.db.Sweeps, params)
	if err != nil {
		return 0, fmt.Errorf("looking for due endpoints without a worker: %w", pg.Translate(err))
	}
	for _, row := range rows {
		done, err := s.skip(ctx, row, texts[row.TagSetID])
		if err != nil {
			return skipped, fmt.Errorf("skipping a due time of endpoint %x: %w", row.EndpointID, pg.Translate(err))
		}
		if done {
			skipped++
		}
	}
	return skipped, nil
}

// unservedText returns the error text of a skipped due time.
func unservedText(set zombie.TagSet) string {
	switch {
	case len(set.Required) == 0:
		return "nothing was sent: every active worker is exclusive, and the endpoint requires no tag"
	case len(set.Missing) == 0:
		return "nothing was sent: no active worker serves the required tags " + strings.Join(set.Required, ", ") + " together"
	default:
		return "nothing was sent: no active worker has the required tags " + strings.Join(set.Missing, ", ")
	}
}

// skip records a due time as skipped and plans the next one, unless the endpoint is not due or a
// worker serves it now.
func (s *Sweeps) skip(ctx context.Context, row *dbsqlc.ScheduleListUnservedRow, text string) (skipped bool, err error) {
	var days []time.Time
	err = isolated(s.db, 1, func(fault error) error {
		return s.db.WithPartitions(ctx, func() []time.Time { return days }, func() error {
			return s.tx(ctx, func(tx pgx.Tx) error {
				run, err := s.startSkipped(ctx, tx, row)
				if skipped = run != nil; err != nil || !skipped {
					return err
				}
				run.Outcome.Error = text
				days = history.RunDays([]runs.Run{*run})
				b := newBatch(s.db, tx, []runs.Run{*run})
				defer b.release()
				b.fault = fault
				if err := pg.Pipeline(ctx, tx, b.reads(ctx, rowsOf(*run))...); err != nil {
					return err
				}
				err = b.settle(ctx)
				days = append(days, history.DaysOf(b.skipped)...)
				return err
			})
		})
	})
	return skipped && err == nil, err
}

// startSkipped claims and starts an endpoint for the record of a skipped due time. It returns nil
// if the endpoint is not due, or if a worker serves it now.
func (s *Sweeps) startSkipped(ctx context.Context, tx pgx.Tx, row *dbsqlc.ScheduleListUnservedRow) (*runs.Run, error) {
	if row.OwnerID != nil {
		if err := lockOwner(ctx, tx, s.db, runs.Run{EndpointID: *row.OwnerID, ItemID: row.EndpointID}); err != nil {
			return nil, err
		}
	}
	claimed, err := s.db.Q.ScheduleClaimUnserved(ctx, tx, dbsqlc.ScheduleClaimUnservedParams{
		SweeperID:  sweeperID,
		Now:        s.db.Now(),
		EndpointID: row.EndpointID,
		TagSetID:   row.TagSetID,
	})
	if err != nil || len(claimed) == 0 {
		return nil, err
	}
	c := claimed[0]
	run := &runs.Run{
		EndpointID:   c.EndpointID,
		TenantID:     c.TenantID,
		ScheduledFor: c.Slot,
		Attempt:      int(c.Attempt),
		InfraAttempt: int(c.InfraAttempt),
		Source:       c.Source,
		ClaimToken:   c.ClaimToken,
		WorkerID:     sweeperID,
		StartedAt:    c.Now,
		FinishedAt:   c.Now,
		Outcome:      runs.Outcome{Status: runs.Skipped, Reason: runs.Unroutable},
	}
	if c.OwnerID != nil {
		run.EndpointID, run.ItemID = *c.OwnerID, c.EndpointID
	}
	run.ID = runs.NewID(c.Slot, run.EndpointID, run.Attempt, run.InfraAttempt)
	if c.Source == string(governor.SourceManual) {
		run.Outcome.Reason = runs.DeadlinePassed
	}
	_, err = s.db.Q.ScheduleStart(ctx, tx, dbsqlc.ScheduleStartParams{
		WorkerID:    sweeperID,
		LockTtlMs:   time.Minute.Milliseconds(),
		Now:         s.db.Now(),
		CTIDs:       []pgtype.TID{c.CTID},
		EndpointIds: [][16]byte{c.EndpointID},
		Tokens:      []int64{c.ClaimToken},
		RunIds:      [][16]byte{run.ID},
		ExecutionMs: []int64{1000},
	})
	return run, err
}
