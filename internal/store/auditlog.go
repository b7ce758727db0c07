package store

import (
	"bytes"
	"context"
	"fmt"

	"rubato/internal/auditlog"
	"rubato/internal/store/dbsqlc"
)

// AuditLog reads the audit log. It implements httpapi.AuditLog.
type AuditLog struct {
	db *DB
}

// NewAuditLog returns the reader of the audit log.
func NewAuditLog(db *DB) *AuditLog { return &AuditLog{db: db} }

// List returns the entries that match a filter, newest first.
func (s *AuditLog) List(ctx context.Context, f auditlog.Filter) ([]auditlog.Entry, error) {
	params := dbsqlc.AuditListParams{
		TenantID:   f.TenantID,
		BeforeID:   auditlog.LastID(),
		ObjectID:   optionalText(f.ObjectID),
		ObjectKind: optionalText(string(f.Kind)),
		Action:     optionalText(string(f.Action)),
		MaxRows:    int32(f.Limit),
		KeyID:      given(f.KeyID),
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
	rows, err := s.db.q.AuditList(ctx, s.db.pool, params)
	if err != nil {
		return nil, fmt.Errorf("listing the audit log: %w", translate(err))
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
			KeyID:         orZero(row.KeyID),
			Name:          row.Actor,
			RequestID:     row.RequestID,
			RemoteAddress: row.RemoteAddress,
		},
		Object: auditlog.Object{Kind: auditlog.Kind(row.ObjectKind), ID: row.ObjectID},
		Before: row.Before,
		After:  row.After,
	}
}
