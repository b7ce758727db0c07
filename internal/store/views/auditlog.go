package views

import (
	"bytes"
	"context"
	"fmt"

	"rubato/internal/auditlog"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// AuditLog reads the audit log. It implements httpapi.AuditLog.
type AuditLog struct {
	db *pg.DB
}

// NewAuditLog returns the reader of the audit log.
func NewAuditLog(db *pg.DB) *AuditLog { return &AuditLog{db: db} }

// List returns the entries that match a filter, newest first.
func (s *AuditLog) List(ctx context.Context, f auditlog.Filter) ([]auditlog.Entry, error) {
	params := dbsqlc.AuditListParams{
		TenantID:   f.TenantID,
		BeforeID:   auditlog.LastID(),
		ObjectID:   pg.OptionalText(f.ObjectID),
		ObjectKind: pg.OptionalText(string(f.Kind)),
		Action:     pg.OptionalText(string(f.Action)),
		MaxRows:    int32(f.Limit),
		KeyID:      pg.Given(f.KeyID),
	}
	if !f.From.IsZero() {
		params.FromID = auditlog.FirstID(f.From)
	}
	if !f.To.IsZero() {
		params.BeforeID = auditlog.FirstID(f.To)
	}
	if f.Before != (auditlog.ID{}) && bytes.Compare(f.Before[:], params.BeforeID[:]) < 0 {
		params.BeforeID = f.Before
	}
	rows, err := s.db.Q.AuditList(ctx, s.db.Pool, params)
	if err != nil {
		return nil, fmt.Errorf("listing the audit log: %w", pg.Translate(err))
	}
	list := make([]auditlog.Entry, 0, len(rows))
	for _, row := range rows {
		list = append(list, entryOf(row))
	}
	return list, nil
}

func entryOf(row *dbsqlc.AuditLog) auditlog.Entry {
	return auditlog.Entry{
		ID:     row.ID,
		At:     row.At,
		Action: auditlog.Action(row.Action),
		By: auditlog.Actor{
			TenantID:      row.TenantID,
			KeyID:         pg.OrZero(row.KeyID),
			Name:          row.Actor,
			RequestID:     row.RequestID,
			RemoteAddress: row.RemoteAddress,
		},
		Object: auditlog.Object{Kind: auditlog.Kind(row.ObjectKind), ID: row.ObjectID},
		Before: row.Before,
		After:  row.After,
	}
}
