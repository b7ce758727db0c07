package notices

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/notices"
	"rubato/internal/runs"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// Limits of one round of Watch.
const (
	noticeBatch = 1000 // rows per statement
	scanBatch   = 5000 // endpoints per statement
	scanBatches = 20   // statements per round
	// noticeHistory is the retention of closed episodes.
	noticeHistory = 30 * 24 * time.Hour
)

// Watch maintains episodes: it opens and closes those that no run opens or closes, and writes
// reminders. Only one process runs it at a time (row lock). Each step is a transaction of its own,
// so that no step holds locks of finishes while it waits for another.
func (s *Store) Watch(ctx context.Context) error {
	return s.db.Tx(ctx, func(turn pgx.Tx) error {
		anything, err := s.db.Q.NoticeWatchLock(ctx, turn)
		switch {
		case pg.IsMissing(err): // Another process holds the lock, or rules are being changed.
			return nil
		case err != nil:
			return fmt.Errorf("locking the watch of episodes: %w", err)
		case !anything: // No rules and no episodes: a round is one cheap query.
			return nil
		}
		for _, step := range []func(context.Context, pgx.Tx, time.Time) error{s.overdue, s.unroutable, s.settle, s.closeSilently, s.remind, s.forget} {
			if err := s.step(ctx, step); err != nil {
				return err
			}
		}
		for range scanBatches {
			more := false
			if err := s.step(ctx, func(ctx context.Context, tx pgx.Tx, now time.Time) (err error) {
				more, err = s.scan(ctx, tx, now)
				return err
			}); err != nil || !more {
				return err
			}
		}
		return nil
	})
}

func (s *Store) step(ctx context.Context, act func(context.Context, pgx.Tx, time.Time) error) error {
	return s.db.Tx(ctx, func(tx pgx.Tx) error {
		now, err := s.db.DecisionTime(ctx, tx)
		if err != nil {
			return fmt.Errorf("reading the database's time: %w", err)
		}
		return act(ctx, tx, now)
	})
}

// overdue opens late episodes of endpoints that are due and have not started. Stuck endpoints
// finish no runs, therefore no finish can open them.
func (s *Store) overdue(ctx context.Context, tx pgx.Tx, now time.Time) error {
	if _, err := s.db.DueGauge(ctx, tx, &s.due, 1); err != nil { // It moves the mark.
		return err
	}
	rows, err := s.db.Q.NoticeOverdue(ctx, tx, dbsqlc.NoticeOverdueParams{
		Now:     now,
		FromAt:  s.due.From(),
		MaxRows: noticeBatch,
	})
	if err != nil {
		return fmt.Errorf("listing overdue endpoints: %w", err)
	}
	var a EpisodeChanges
	slices.SortFunc(rows, func(x, y *dbsqlc.NoticeOverdueRow) int { return slices.Compare(x.EndpointID[:], y.EndpointID[:]) })
	for _, row := range rows {
		by := now.Sub(row.Since).Milliseconds()
		a.open(row.EndpointID, notices.Late, by, notices.Detail{LateMs: by, Reason: "it has not started yet"})
	}
	return a.write(ctx, tx, s.db, now)
}

// unroutable opens episodes of endpoints whose required tags no active worker has.
func (s *Store) unroutable(ctx context.Context, tx pgx.Tx, now time.Time) error {
	rows, err := s.db.Q.NoticeUnroutable(ctx, tx, dbsqlc.NoticeUnroutableParams{Now: now, MaxRows: noticeBatch})
	if err != nil {
		return fmt.Errorf("listing endpoints without a worker: %w", err)
	}
	var a EpisodeChanges
	for _, row := range rows {
		a.open(row.EndpointID, notices.Unroutable, 1, notices.Detail{Reason: "required tags: " + strings.Join(row.Required, ", ")})
	}
	return a.write(ctx, tx, s.db, now)
}

// settle closes episodes if their condition ended without a run.
func (s *Store) settle(ctx context.Context, tx pgx.Tx, now time.Time) error {
	rows, err := s.db.Q.NoticeSettled(ctx, tx, dbsqlc.NoticeSettledParams{Now: &now, MaxRows: noticeBatch})
	if err != nil {
		return fmt.Errorf("listing ended episodes: %w", err)
	}
	var a EpisodeChanges
	for _, row := range rows {
		if !row.Silent {
			a.close(row.EndpointID, notices.Event(row.Event), 0)
		}
	}
	return a.write(ctx, tx, s.db, now)
}

// closeSilently closes the episodes of archived endpoints and of changed or deleted rules. Only
// receivers with a closing message get a notice.
func (s *Store) closeSilently(ctx context.Context, tx pgx.Tx, now time.Time) error {
	rows, err := s.db.Q.NoticeSettled(ctx, tx, dbsqlc.NoticeSettledParams{Now: &now, MaxRows: noticeBatch})
	if err != nil {
		return fmt.Errorf("listing episodes to close without notice: %w", err)
	}
	var ids []dbsqlc.UUID
	causes := map[dbsqlc.UUID]notices.Cause{} // Episodes with a closing notice.
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
			causes[row.ID] = notices.RuleChanged // A finish with a stale rule cache opened it.
		}
	}
	if len(ids) == 0 {
		return nil
	}
	closed, err := s.db.Q.NoticeCloseSilently(ctx, tx, dbsqlc.NoticeCloseSilentlyParams{Now: now, Ids: ids})
	if err != nil {
		return fmt.Errorf("closing %d episodes: %w", len(ids), err)
	}
	withNotice := map[notices.Cause][]dbsqlc.UUID{}
	for _, id := range closed {
		withNotice[causes[id]] = append(withNotice[causes[id]], id)
	}
	for _, why := range notices.Causes() {
		if err := s.withdraw(ctx, tx, now, withNotice[why], why); err != nil {
			return err
		}
	}
	return nil
}

// remind writes due reminders.
func (s *Store) remind(ctx context.Context, tx pgx.Tx, now time.Time) error {
	if _, err := s.db.Q.NoticeRemind(ctx, tx, dbsqlc.NoticeRemindParams{Now: now, MaxRows: noticeBatch}); err != nil {
		return fmt.Errorf("writing reminders: %w", err)
	}
	return nil
}

// forget deletes closed episodes past their retention, with their notices.
func (s *Store) forget(ctx context.Context, tx pgx.Tx, now time.Time) error {
	before := now.Add(-noticeHistory)
	if _, err := s.db.Q.NoticeEpisodeDropBefore(ctx, tx, dbsqlc.NoticeEpisodeDropBeforeParams{Before: &before, MaxRows: noticeBatch}); err != nil {
		return fmt.Errorf("deleting old notices: %w", err)
	}
	return nil
}

// scan examines one batch of endpoints for a new rule. It opens episodes for failures from before
// the rule was in every rule cache. more reports whether it must be called again.
func (s *Store) scan(ctx context.Context, tx pgx.Tx, now time.Time) (more bool, err error) {
	rule, err := s.db.Q.NoticeScanNext(ctx, tx, now)
	if pg.IsMissing(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("listing new notice rules: %w", err)
	}
	rows, err := s.db.Q.NoticeScanEndpoints(ctx, tx, dbsqlc.NoticeScanEndpointsParams{
		TenantID: rule.TenantID,
		After:    *rule.ScanCursor,
		MaxRows:  scanBatch,
	})
	if err != nil {
		return false, fmt.Errorf("listing endpoints for the notice rule %q: %w", rule.Name, err)
	}
	var a EpisodeChanges
	var cursor *[16]byte
	failed := slices.DeleteFunc(slices.Clone(rows), func(r *dbsqlc.NoticeScanEndpointsRow) bool { return int64(r.FailureCount) < rule.Threshold })
	details, err := s.lastFailures(ctx, tx, rule.TenantID, failed)
	if err != nil {
		return false, fmt.Errorf("reading the last runs of %d endpoints for the notice rule %q: %w", len(failed), rule.Name, err)
	}
	for _, row := range failed {
		d := details[row.ID]
		d.Failures = int(row.FailureCount)
		a.open(row.ID, notices.Failures, int64(row.FailureCount), d)
	}
	if len(rows) == scanBatch {
		cursor = &rows[scanBatch-1].ID
	}
	if err := a.write(ctx, tx, s.db, now); err != nil {
		return false, err
	}
	_, err = s.db.Q.NoticeScanAdvance(ctx, tx, dbsqlc.NoticeScanAdvanceParams{
		ID:         rule.ID,
		Version:    rule.Version,
		ScanCursor: cursor,
	})
	if err != nil {
		return false, fmt.Errorf("storing the progress of the notice rule %q: %w", rule.Name, err)
	}
	return true, nil
}

// lastFailures returns the details of last runs by endpoint. An endpoint is missing if its last run
// did not fail or is no longer in the history.
func (s *Store) lastFailures(
	ctx context.Context, tx pgx.Tx, tenant [16]byte, list []*dbsqlc.NoticeScanEndpointsRow,
) (map[dbsqlc.UUID]notices.Detail, error) {
	p := dbsqlc.NoticeFailedRunsParams{TenantID: tenant}
	for _, row := range list {
		if row.LastRunSlot != nil && row.LastAttempt != nil {
			p.Slots = append(p.Slots, *row.LastRunSlot)
			p.Ids = append(p.Ids, runs.NewID(*row.LastRunSlot, row.ID, int(*row.LastAttempt), int(row.LastInfraAttempt)))
		}
	}
	details := map[dbsqlc.UUID]notices.Detail{}
	if len(p.Ids) == 0 {
		return details, nil
	}
	rows, err := s.db.Q.NoticeFailedRuns(ctx, tx, p)
	for _, r := range rows {
		details[r.EndpointID] = notices.Detail{
			RunID:      runs.ID(r.ID).String(),
			Status:     r.Status,
			ReasonCode: r.ReasonCode,
			StatusCode: int(pg.OrZero(r.StatusCode)),
			Error:      pg.OrZero(r.Error),
		}
	}
	return details, err
}
