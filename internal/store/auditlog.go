package store

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

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

// audited records a change in the audit log, inside the transaction that makes the change. A change
// without effect is not recorded. Every write that users can see must call it, so that the log is
// complete.
func (db *DB) audited(ctx context.Context, tx pgx.Tx, c auditlog.Change) error {
	entry, noted := auditRow(c, db.now())
	if !noted {
		return nil
	}
	if err := db.q.AuditInsert(ctx, tx, entry); err != nil {
		return fmt.Errorf("recording the %s of %s in the audit log: %w", c.Action, c.ID, err)
	}
	return nil
}

// auditRow returns the entry of a change. noted is false if the change has no effect. If now is
// nil, the entry gets the database's time.
func auditRow(c auditlog.Change, now *time.Time) (entry dbsqlc.AuditInsertParams, noted bool) {
	before, after, noted := c.Members()
	return dbsqlc.AuditInsertParams{
		TenantID:      c.By.TenantID,
		KeyID:         given(c.By.KeyID),
		Actor:         c.By.Name,
		Action:        string(c.Action),
		ObjectKind:    string(c.Kind),
		ObjectID:      c.ID,
		Before:        members(before),
		After:         members(after),
		RequestID:     c.By.RequestID,
		RemoteAddress: c.By.RemoteAddress,
		Now:           now,
	}, noted
}

// trail collects the audit entries of one act on many objects, so that one statement inserts them.
type trail struct{ rows dbsqlc.AuditInsertManyParams }

// add adds the entry of one object. before is nil for a new object.
func (l *trail) add(o auditlog.Object, before, after map[string]any) {
	before, after = auditlog.Diff(before, after)
	l.rows.Kinds = append(l.rows.Kinds, string(o.Kind))
	l.rows.Ids = append(l.rows.Ids, o.ID)
	l.rows.Befores = append(l.rows.Befores, string(members(before)))
	l.rows.Afters = append(l.rows.Afters, string(members(after)))
}

// write inserts the collected entries.
func (l *trail) write(ctx context.Context, tx opened, db *DB, act auditlog.Act) error {
	if len(l.rows.Ids) == 0 {
		return nil
	}
	r := &l.rows
	r.TenantID, r.KeyID, r.Actor, r.Action = act.By.TenantID, given(act.By.KeyID), act.By.Name, string(act.Action)
	r.RequestID, r.RemoteAddress, r.Now = act.By.RequestID, act.By.RemoteAddress, db.now()
	if err := db.q.AuditInsertMany(ctx, tx, *r); err != nil {
		return fmt.Errorf("recording the %s of %d objects in the audit log: %w", act.Action, len(r.Ids), err)
	}
	return nil
}

// members encodes the members of an object. It cannot fail because they are plain JSON values.
func members(m map[string]any) json.RawMessage {
	if m == nil {
		return nil
	}
	raw, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return raw
}
