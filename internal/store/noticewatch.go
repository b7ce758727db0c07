package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/notices"
	"rubato/internal/runs"
	"rubato/internal/store/dbsqlc"
)

// The bounds of one look after episodes.
const (
	noticeBatch   = 1000 // rows of one statement
	walkBatch     = 5000 // endpoints of one statement
	walkBatches   = 20   // of one look
	noticeHistory = 30 * 24 * time.Hour
)

// Watch looks after episodes: it opens those of which no run tells, closes those that no run ends, and writes reminders. One program
// does so at a time. Each step is a transaction of its own, so that none waits for a finish while it keeps another one waiting.
func (s *Notices) Watch(ctx context.Context) error {
	return s.db.tx(ctx, func(turn pgx.Tx) error {
		anything, err := s.db.q.NoticeWatchHold(ctx, turn)
		switch {
		case missing(err): // Another program is at it, or rules are changed at the moment.
			return nil
		case err != nil:
			return fmt.Errorf("taking the turn to look after episodes: %w", err)
		case !anything: // Where nobody has made rules, looking every few seconds costs next to nothing.
			return nil
		}
		for _, step := range []func(context.Context, pgx.Tx, time.Time) error{s.overdue, s.settle, s.closeSilently, s.remind, s.forget} {
			if err := s.step(ctx, step); err != nil {
				return err
			}
		}
		for range walkBatches {
			more := false
			if err := s.step(ctx, func(ctx context.Context, tx pgx.Tx, now time.Time) (err error) {
				more, err = s.walk(ctx, tx, now)
				return err
			}); err != nil || !more {
				return err
			}
		}
		return nil
	})
}

func (s *Notices) step(ctx context.Context, act func(context.Context, pgx.Tx, time.Time) error) error {
	return s.db.tx(ctx, func(tx pgx.Tx) error {
		now, err := s.db.decisionTime(ctx, tx)
		if err != nil {
			return fmt.Errorf("reading the database's time: %w", err)
		}
		return act(ctx, tx, now)
	})
}

// overdue opens episodes of endpoints that nobody has started yet: whatever is stuck finishes no runs that could tell.
func (s *Notices) overdue(ctx context.Context, tx pgx.Tx, now time.Time) error {
	rows, err := s.db.q.NoticeOverdue(ctx, tx, dbsqlc.NoticeOverdueParams{Now: now, MaxRows: noticeBatch})
	if err != nil {
		return fmt.Errorf("looking for endpoints that are overdue: %w", err)
	}
	var a alarms
	slices.SortFunc(rows, func(x, y *dbsqlc.NoticeOverdueRow) int { return slices.Compare(x.EndpointID[:], y.EndpointID[:]) })
	for _, row := range rows {
		by := now.Sub(row.Since).Milliseconds()
		a.open(row.EndpointID, notices.Late, by, notices.Detail{LateMs: by, Reason: "it has not started yet"})
	}
	return a.write(ctx, tx, s.db, now)
}

// settle closes episodes that are over though no run said so.
func (s *Notices) settle(ctx context.Context, tx pgx.Tx, now time.Time) error {
	rows, err := s.db.q.NoticeSettled(ctx, tx, dbsqlc.NoticeSettledParams{Now: &now, MaxRows: noticeBatch})
	if err != nil {
		return fmt.Errorf("looking for episodes that are over: %w", err)
	}
	var a alarms
	for _, row := range rows {
		if !row.Silent {
			a.close(row.EndpointID, notices.Event(row.Event), 0)
		}
	}
	return a.write(ctx, tx, s.db, now)
}

// closeSilently closes episodes whose endpoint or rule is gone. Only a receiver that keeps them is told.
func (s *Notices) closeSilently(ctx context.Context, tx pgx.Tx, now time.Time) error {
	rows, err := s.db.q.NoticeSettled(ctx, tx, dbsqlc.NoticeSettledParams{Now: &now, MaxRows: noticeBatch})
	if err != nil {
		return fmt.Errorf("looking for episodes that nobody is told of: %w", err)
	}
	var ids []dbsqlc.UUID
	causes := map[dbsqlc.UUID]notices.Cause{} // of those whose receiver is told
	for _, row := range rows {
		if !row.Silent {
			continue
		}
		ids = append(ids, row.ID)
		switch {
		case !notices.Closes(notices.ChannelKind(row.ChannelKind), row.Recovery):
		case row.Archived:
			causes[row.ID] = notices.EndpointArchived
		default:
			causes[row.ID] = notices.RuleChanged // A finish that did not know yet opened it.
		}
	}
	if len(ids) == 0 {
		return nil
	}
	closed, err := s.db.q.NoticeCloseSilently(ctx, tx, dbsqlc.NoticeCloseSilentlyParams{Now: now, Ids: ids})
	if err != nil {
		return fmt.Errorf("closing %d episodes: %w", len(ids), err)
	}
	told := map[notices.Cause][]dbsqlc.UUID{}
	for _, id := range closed {
		told[causes[id]] = append(told[causes[id]], id)
	}
	for _, why := range notices.Causes() {
		if err := s.withdraw(ctx, tx, now, told[why], why); err != nil {
			return err
		}
	}
	return nil
}

// remind writes reminders.
func (s *Notices) remind(ctx context.Context, tx pgx.Tx, now time.Time) error {
	if _, err := s.db.q.NoticeRemind(ctx, tx, dbsqlc.NoticeRemindParams{Now: now, MaxRows: noticeBatch}); err != nil {
		return fmt.Errorf("writing reminders: %w", err)
	}
	return nil
}

// forget removes what was over long ago.
func (s *Notices) forget(ctx context.Context, tx pgx.Tx, now time.Time) error {
	before := now.Add(-noticeHistory)
	if _, err := s.db.q.NoticeForget(ctx, tx, dbsqlc.NoticeForgetParams{Before: &before, MaxRows: noticeBatch}); err != nil {
		return fmt.Errorf("forgetting old notices: %w", err)
	}
	return nil
}

// walk looks through some endpoints for what was so before a rule was made, or before every program went by it. It reports whether
// there are more to look at.
func (s *Notices) walk(ctx context.Context, tx pgx.Tx, now time.Time) (more bool, err error) {
	rule, err := s.db.q.NoticeWalkNext(ctx, tx, now)
	if missing(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for a rule that is new: %w", err)
	}
	rows, err := s.db.q.NoticeWalkEndpoints(ctx, tx, dbsqlc.NoticeWalkEndpointsParams{TenantID: rule.TenantID, After: *rule.Walked, MaxRows: walkBatch})
	if err != nil {
		return false, fmt.Errorf("looking through endpoints for the notice rule %q: %w", rule.Name, err)
	}
	var a alarms
	var walked *[16]byte
	failed := slices.DeleteFunc(slices.Clone(rows), func(r *dbsqlc.NoticeWalkEndpointsRow) bool { return int64(r.FailureCount) < rule.Threshold })
	details, err := s.lastFailures(ctx, tx, rule.TenantID, failed)
	if err != nil {
		return false, fmt.Errorf("reading the last runs of %d endpoints for the notice rule %q: %w", len(failed), rule.Name, err)
	}
	for _, row := range failed {
		d := details[row.ID]
		d.Failures = int(row.FailureCount)
		a.open(row.ID, notices.Failures, int64(row.FailureCount), d)
	}
	if len(rows) == walkBatch {
		walked = &rows[walkBatch-1].ID
	}
	if err := a.write(ctx, tx, s.db, now); err != nil {
		return false, err
	}
	_, err = s.db.q.NoticeWalkMove(ctx, tx, dbsqlc.NoticeWalkMoveParams{ID: rule.ID, Version: rule.Version, Walked: walked})
	if err != nil {
		return false, fmt.Errorf("noting how far the notice rule %q was looked into: %w", rule.Name, err)
	}
	return true, nil
}

// lastFailures returns by endpoint what is known of its last run. An endpoint is missing where that run did not fail or is gone from the history.
func (s *Notices) lastFailures(
	ctx context.Context, tx pgx.Tx, tenant [16]byte, list []*dbsqlc.NoticeWalkEndpointsRow,
) (map[dbsqlc.UUID]notices.Detail, error) {
	p := dbsqlc.NoticeFailedRunsParams{TenantID: tenant}
	for _, row := range list {
		if row.LastSlot != nil && row.LastAttempt != nil {
			p.Slots = append(p.Slots, *row.LastSlot)
			p.Ids = append(p.Ids, runs.NewID(*row.LastSlot, row.ID, int(*row.LastAttempt), int(row.LastInfraAttempt)))
		}
	}
	details := map[dbsqlc.UUID]notices.Detail{}
	if len(p.Ids) == 0 {
		return details, nil
	}
	rows, err := s.db.q.NoticeFailedRuns(ctx, tx, p)
	for _, r := range rows {
		details[r.EndpointID] = notices.Detail{
			RunID: runs.ID(r.ID).String(), Status: r.Status, ReasonCode: r.ReasonCode, StatusCode: int(orZero(r.StatusCode)), Error: orZero(r.Error),
		}
	}
	return details, err
}
