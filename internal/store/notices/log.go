package notices

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"rubato/internal/auditlog"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/notices"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// ListNotices implements notices.Log.
func (s *Store) ListNotices(ctx context.Context, f notices.Filter) (list []notices.Notice, err error) {
	err = s.db.List(ctx, func(tx pgx.Tx) error {
		if f.EndpointID != (endpoints.ID{}) {
			if _, err := s.db.Q.EndpointGet(ctx, tx, dbsqlc.EndpointGetParams{ID: f.EndpointID, TenantID: f.TenantID}); err != nil {
				return pg.NotFound(err, f.EndpointID)
			}
		}
		rows, err := s.db.Q.NoticeList(ctx, tx, dbsqlc.NoticeListParams{
			TenantID:   f.TenantID,
			EndpointID: pg.Given(f.EndpointID),
			Rule:       pg.OptionalText(f.Rule),
			State:      pg.OptionalText(string(f.State)),
			Before:     pg.Given(f.Before),
			MaxRows:    int32(f.Limit),
		})
		if err != nil {
			return fmt.Errorf("listing notices: %w", err)
		}
		list = make([]notices.Notice, len(rows))
		for i, row := range rows {
			list[i] = displayNotice((*dbsqlc.NoticeGetRow)(row))
		}
		return nil
	})
	return list, err
}

// RetryNotice implements notices.Log.
func (s *Store) RetryNotice(ctx context.Context, by auditlog.Actor, id notices.ID) (found notices.Notice, err error) {
	err = s.db.Tx(ctx, func(tx pgx.Tx) error {
		now, err := s.db.DecisionTime(ctx, tx)
		if err != nil {
			return fmt.Errorf("reading the database's time: %w", err)
		}
		rows, err := s.db.Q.NoticeRetry(ctx, tx, dbsqlc.NoticeRetryParams{
			TenantID: by.TenantID,
			ID:       id,
			Now:      now,
		})
		if err != nil {
			return fmt.Errorf("retrying notice %s: %w", id, err)
		}
		row, err := s.db.Q.NoticeGet(ctx, tx, dbsqlc.NoticeGetParams{TenantID: by.TenantID, ID: id})
		if pg.IsMissing(err) {
			return errs.New(errs.NotFound, "not_found", fmt.Sprintf("there is no notice %s", id))
		}
		if err != nil {
			return fmt.Errorf("reading notice %s: %w", id, err)
		}
		found = displayNotice(row)
		if rows == 0 {
			return errs.New(errs.Conflict, "notice_not_dead", fmt.Sprintf("notice %s was not given up: it is %s", id, found.State))
		}
		return s.db.Audited(ctx, tx, auditlog.Change{
			Act:    auditlog.Act{By: by, Action: auditlog.Retry},
			Object: auditlog.Object{Kind: auditlog.Notice, ID: id.String()},
			Before: map[string]any{"state": string(notices.Dead)}, After: map[string]any{"state": string(notices.Waiting)},
		})
	})
	return found, err
}

// displayNotice returns a notice for display. A detail that cannot be decoded becomes its Error, so
// that the rest of the list is readable.
func displayNotice(row *dbsqlc.NoticeGetRow) notices.Notice {
	n, err := noticeOf(row)
	if err != nil {
		n.Error = err.Error()
	}
	return n
}

// noticeOf decodes a notice. The error is about its detail; all other fields are set even then.
func noticeOf(row *dbsqlc.NoticeGetRow) (notices.Notice, error) {
	n := notices.Notice{
		ID:         row.ID,
		Kind:       notices.Kind(row.Kind),
		Number:     int(row.Number),
		CreatedAt:  row.CreatedAt,
		State:      notices.State(row.State),
		Attempts:   int(row.Attempts),
		Held:       row.Held,
		EndedAt:    pg.OrZero(row.EndedAt),
		Error:      row.Error,
		Cause:      notices.Cause(pg.OrZero(row.Cause)),
		StatusCode: int(pg.OrZero(row.StatusCode)),
		Episode: notices.Episode{
			EpisodeID:    row.EpisodeID,
			Rule:         row.Rule,
			Event:        notices.Event(row.Event),
			EndpointID:   row.EndpointID,
			EndpointName: row.EndpointName,
			OpenedAt:     row.OpenedAt,
			ClosedAt:     pg.OrZero(row.ClosedAt),
		},
	}
	if n.State == notices.Waiting {
		n.NextAt = row.DueAt
	}
	if err := json.Unmarshal(row.Detail, &n.Detail); err != nil {
		return n, fmt.Errorf("reading the detail of notice %s: %w", n.ID, err)
	}
	return n, nil
}
