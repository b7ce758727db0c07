package pg

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/auditlog"
	"rubato/internal/store/dbsqlc"
)

// Audited records a change in the audit log, inside the transaction that makes the change. A change
// without effect is not recorded. Every write that users can see must call it, so that the log is
// complete.
func (db *DB) Audited(ctx context.Context, tx pgx.Tx, c auditlog.Change) error {
	entry, noted := AuditRow(c, db.Now())
	if !noted {
		return nil
	}
	if err := db.Q.AuditInsert(ctx, tx, entry); err != nil {
		return fmt.Errorf("recording the %s of %s in the audit log: %w", c.Action, c.ID, err)
	}
	return nil
}

// AuditRow returns the entry of a change. noted is false if the change has no effect. If now is
// nil, the entry gets the database's time.
func AuditRow(c auditlog.Change, now *time.Time) (entry dbsqlc.AuditInsertParams, noted bool) {
	before, after, noted := c.Members()
	return dbsqlc.AuditInsertParams{
		TenantID:      c.By.TenantID,
		KeyID:         Given(c.By.KeyID),
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

// AuditBatch collects the audit entries of one act on many objects, so that one statement inserts
// them.
type AuditBatch struct{ rows dbsqlc.AuditInsertManyParams }

// Add adds the entry of one object. before is nil for a new object.
func (l *AuditBatch) Add(o auditlog.Object, before, after map[string]any) {
	before, after = auditlog.Diff(before, after)
	l.rows.Kinds = append(l.rows.Kinds, string(o.Kind))
	l.rows.Ids = append(l.rows.Ids, o.ID)
	l.rows.Befores = append(l.rows.Befores, string(members(before)))
	l.rows.Afters = append(l.rows.Afters, string(members(after)))
}

// Write inserts the collected entries.
func (l *AuditBatch) Write(ctx context.Context, tx OpenTx, db *DB, act auditlog.Act) error {
	if len(l.rows.Ids) == 0 {
		return nil
	}
	r := &l.rows
	r.TenantID, r.KeyID, r.Actor, r.Action = act.By.TenantID, Given(act.By.KeyID), act.By.Name, string(act.Action)
	r.RequestID, r.RemoteAddress, r.Now = act.By.RequestID, act.By.RemoteAddress, db.Now()
	if err := db.Q.AuditInsertMany(ctx, tx, *r); err != nil {
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
