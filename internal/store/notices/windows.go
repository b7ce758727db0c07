package notices

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"rubato/internal/auditlog"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/notices"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// PutWindow implements notices.Windows.
func (s *Store) PutWindow(
	ctx context.Context, by auditlog.Actor, name string, spec notices.WindowSpec, only endpoints.Condition,
) (stored notices.Window, created bool, err error) {
	err = s.change(ctx, func(tx pgx.Tx) error {
		before, err := s.window(ctx, tx, by.TenantID, name)
		if created = errs.CodeOf(err) == errs.NotFound; err != nil && !created {
			return err
		}
		if err := only.Check("maintenance window", notices.CodeTaken, windowVersion(created)); err != nil {
			return err
		}
		if err := s.admitWindow(ctx, tx, by.TenantID, spec, before); err != nil {
			return err
		}
		if stored, err = s.putWindow(ctx, tx, by, name, spec); err != nil {
			return err
		}
		c := auditlog.Change{
			Act:    auditlog.Act{By: by, Action: auditlog.Create},
			Object: stored.Object(),
			After:  stored.Redacted(),
		}
		if !created {
			c.Action, c.Before = auditlog.Edit, before.Redacted()
		}
		if err := s.release(ctx, tx, by.TenantID); err != nil {
			return err
		}
		return s.db.Audited(ctx, tx, c)
	})
	return stored, created, err
}

// windowVersion returns a version for conditions: 0 if the window is new, and 1 if it exists,
// because windows have no versions.
func windowVersion(created bool) int64 {
	if created {
		return 0
	}
	return 1
}

// admitWindow checks a window: its endpoint must exist, and a new window must not exceed the limit.
// A zero before means a new window.
func (s *Store) admitWindow(ctx context.Context, tx pgx.Tx, tenant [16]byte, spec notices.WindowSpec, before notices.Window) error {
	if before.Name == "" {
		count, err := s.db.Q.WindowCount(ctx, tx, tenant)
		if err != nil {
			return fmt.Errorf("counting the maintenance windows of a tenant: %w", err)
		}
		if count >= notices.MaxWindows {
			return errs.New(errs.Conflict, "too_many_windows",
				fmt.Sprintf("the tenant has %d maintenance windows, which is the maximum; delete an ended one first", count))
		}
	}
	bad, err := s.unknownEndpoint(ctx, tx, tenant, spec.Scope, before.Scope)
	if err != nil {
		return err
	}
	return errs.InvalidFields(bad)
}

func (s *Store) putWindow(ctx context.Context, tx pgx.Tx, by auditlog.Actor, name string, spec notices.WindowSpec) (notices.Window, error) {
	now, err := s.db.DecisionTime(ctx, tx)
	if err != nil {
		return notices.Window{}, fmt.Errorf("reading the database's time: %w", err)
	}
	row, err := s.db.Q.WindowPut(ctx, tx, dbsqlc.WindowPutParams{
		TenantID:   by.TenantID,
		Name:       name,
		EndpointID: pg.Given(spec.Scope.EndpointID),
		Labels:     pg.EncodeTexts(spec.Scope.Labels),
		StartsAt:   spec.StartsAt,
		EndsAt:     spec.EndsAt,
		Reason:     spec.Reason,
		Now:        now,
		Author:     pg.Storable(by.Name),
	})
	if err != nil {
		return notices.Window{}, fmt.Errorf("storing the maintenance window %q: %w", name, err)
	}
	return windowOf(row)
}

// release makes held notices due, so that they are checked against the changed windows.
func (s *Store) release(ctx context.Context, tx pgx.Tx, tenant [16]byte) error {
	now, err := s.db.DecisionTime(ctx, tx)
	if err != nil {
		return fmt.Errorf("reading the database's time: %w", err)
	}
	if err := s.db.Q.NoticeRelease(ctx, tx, dbsqlc.NoticeReleaseParams{Now: now, TenantID: tenant}); err != nil {
		return fmt.Errorf("releasing held notices: %w", err)
	}
	return nil
}

func (s *Store) window(ctx context.Context, tx dbsqlc.DBTX, tenant [16]byte, name string) (notices.Window, error) {
	row, err := s.db.Q.WindowGet(ctx, tx, dbsqlc.WindowGetParams{TenantID: tenant, Name: pg.Storable(name)})
	if pg.IsMissing(err) {
		return notices.Window{}, pg.NothingNamed("maintenance window", name, "database-upgrade")
	}
	if err != nil {
		return notices.Window{}, fmt.Errorf("reading the maintenance window %q: %w", name, err)
	}
	return windowOf(row)
}

func windowOf(row *dbsqlc.MaintenanceWindow) (notices.Window, error) {
	scope, err := scopeOf(row.EndpointID, row.Labels)
	if err != nil {
		return notices.Window{}, fmt.Errorf("reading the labels of the maintenance window %q: %w", row.Name, err)
	}
	return notices.Window{
		TenantID:  row.TenantID,
		Name:      row.Name,
		CreatedAt: row.CreatedAt,
		CreatedBy: row.CreatedBy,
		WindowSpec: notices.WindowSpec{
			Scope:    scope,
			StartsAt: row.StartsAt,
			EndsAt:   row.EndsAt,
			Reason:   row.Reason,
		},
	}, nil
}

// ListWindows implements notices.Windows.
func (s *Store) ListWindows(ctx context.Context, f notices.PageFilter) ([]notices.Window, error) {
	rows, err := s.db.Q.WindowList(ctx, s.db.Pool, dbsqlc.WindowListParams{
		TenantID: f.TenantID,
		After:    f.After,
		MaxRows:  int32(f.Limit),
	})
	if err != nil {
		return nil, fmt.Errorf("listing maintenance windows: %w", pg.Translate(err))
	}
	list := make([]notices.Window, len(rows))
	for i, row := range rows {
		if list[i], err = windowOf(row); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// DeleteWindow implements notices.Windows.
func (s *Store) DeleteWindow(ctx context.Context, by auditlog.Actor, name string) error {
	return s.change(ctx, func(tx pgx.Tx) error {
		w, err := s.window(ctx, tx, by.TenantID, name)
		if err != nil {
			return err
		}
		if _, err := s.db.Q.WindowDelete(ctx, tx, dbsqlc.WindowDeleteParams{TenantID: by.TenantID, Name: name}); err != nil {
			return fmt.Errorf("deleting the maintenance window %q: %w", name, err)
		}
		if err := s.release(ctx, tx, by.TenantID); err != nil {
			return err
		}
		return s.db.Audited(ctx, tx, auditlog.Change{
			Act:    auditlog.Act{By: by, Action: auditlog.Delete},
			Object: w.Object(),
			Before: w.Redacted(),
		})
	})
}
