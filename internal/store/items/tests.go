package items

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/auditlog"
	"rubato/internal/dispatch/request"
	"rubato/internal/endpoints"
	"rubato/internal/runs"
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/pg"
	"rubato/internal/template"
)

// Tests records test requests in the audit log and stores nothing else. It implements
// request.Tests.
type Tests struct {
	db *endpointstore.States
}

var _ request.Tests = (*Tests)(nil)

// NewTests returns the store of tests.
func NewTests(db *endpointstore.States) *Tests { return &Tests{db: db} }

// Begin implements request.Tests.
func (s *Tests) Begin(
	ctx context.Context, by endpoints.Actor, e *endpoints.Endpoint, id func(time.Time) runs.ID,
) (begun request.TestStart, err error) {
	err = s.db.Tx(ctx, func(tx pgx.Tx) error {
		if begun, err = s.facts(ctx, tx, e); err != nil {
			return err
		}
		begun.ID = id(begun.Now)
		return s.db.Audited(ctx, tx, tested(by, e, begun.ID))
	})
	return begun, err
}

// facts returns the template values of a run of an endpoint that would start now.
func (s *Tests) facts(ctx context.Context, tx pgx.Tx, e *endpoints.Endpoint) (begun request.TestStart, err error) {
	if e.Version == 0 {
		if err := s.db.CheckReferences(ctx, tx, e.TenantID, e.Spec.References()); err != nil {
			return begun, err
		}
	}
	if begun.Now, err = s.db.DecisionTime(ctx, tx); err != nil {
		return begun, fmt.Errorf("reading the database's time: %w", err)
	}
	versions, err := s.db.Q.SecretsVersions(ctx, tx, [][16]byte{e.TenantID})
	if err != nil {
		return begun, fmt.Errorf("reading the version of a tenant's secrets: %w", err)
	}
	for _, row := range versions {
		begun.SecretsVersion = row.SecretsVersion
	}
	lasts, err := s.db.Q.RunLast(ctx, tx, [][16]byte{e.ID})
	if err != nil {
		return begun, fmt.Errorf("reading the last run of %s: %w", e.ID, err)
	}
	for _, row := range lasts {
		begun.Last = template.Last{
			Status:     row.Status,
			StatusCode: int(row.StatusCode),
			FinishedAt: pg.OrZero(row.FinishedAt),
		}
	}
	return begun, nil
}

// tested returns the audit entry of a test. For an unsaved request it holds all fields that are not
// secret, because no other record has them.
func tested(by endpoints.Actor, e *endpoints.Endpoint, id runs.ID) auditlog.Change {
	c := auditlog.Change{Act: auditlog.Act{By: by, Action: auditlog.Test}}
	if e.Version > 0 {
		c.Object, c.Before, c.After = e.Object(), map[string]any{}, map[string]any{"testRunId": id.String()}
		return c
	}
	c.Object, c.After = auditlog.Object{Kind: auditlog.Request, ID: id.String()}, e.Redacted()
	return c
}
