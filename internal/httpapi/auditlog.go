package httpapi

import (
	"context"
	"encoding/json"
	"fmt"

	"rubato/internal/auditlog"
	"rubato/internal/auth"
	"rubato/internal/httpapi/api"
)

// AuditLog reads the log of changes.
type AuditLog interface {
	// List returns the entries that a filter selects, the newest first.
	List(ctx context.Context, f auditlog.Filter) ([]auditlog.Entry, error)
}

// ListAudit returns a page of the log of changes.
func (s *Server) ListAudit(ctx context.Context, r api.ListAuditRequestObject) (api.ListAuditResponseObject, error) {
	p := r.Params
	f := auditlog.Filter{TenantID: principalOf(ctx).TenantID, Limit: limitOf(p.Limit) + 1}
	set(&f.ObjectID, p.Object)
	setWord(&f.Kind, p.Kind)
	setWord(&f.Action, p.Action)
	set(&f.From, p.From)
	set(&f.To, p.To)
	if p.Actor != nil {
		id, err := keyIDOf("actor", *p.Actor)
		if err != nil {
			return nil, err
		}
		f.KeyID = id
	}
	digest := filterDigest("audit", f.TenantID, f.ObjectID, f.Kind, f.Action, f.KeyID, f.From.UnixNano(), f.To.UnixNano())
	before, err := resume(p.Cursor, digest)
	if err != nil {
		return nil, err
	}
	f.Before = before
	found, err := s.audit.List(ctx, f)
	if err != nil {
		return nil, err
	}
	return auditList(found, f.Limit, digest)
}

func auditList(found []auditlog.Entry, asked int, digest [digestSize]byte) (api.ListAudit200JSONResponse, error) {
	out := api.ListAudit200JSONResponse{Items: []api.AuditEntry{}}
	found, more := page(found, asked)
	for _, e := range found {
		answer, err := entryAnswer(e)
		if err != nil {
			return out, err
		}
		out.Items = append(out.Items, answer)
	}
	if more {
		out.NextCursor = new(cursor(found[len(found)-1].ID, digest))
	}
	return out, nil
}

func entryAnswer(e auditlog.Entry) (api.AuditEntry, error) {
	out := api.AuditEntry{
		ID:            e.ID.String(),
		At:            e.At.UTC(),
		Action:        api.AuditAction(e.Action),
		Kind:          api.AuditKind(e.Object.Kind),
		ObjectID:      e.Object.ID,
		Actor:         api.AuditActor{Name: e.By.Name},
		RequestID:     optional(e.By.RequestID),
		RemoteAddress: optional(e.By.RemoteAddress),
	}
	if e.By.KeyID != [16]byte{} {
		out.Actor.KeyID = new(auth.KeyID(e.By.KeyID).String())
	}
	for field, raw := range map[**map[string]any]json.RawMessage{&out.Before: e.Before, &out.After: e.After} {
		if raw == nil {
			continue
		}
		if err := json.Unmarshal(raw, field); err != nil {
			return out, fmt.Errorf("reading the audit entry %s: %w", e.ID, err)
		}
	}
	return out, nil
}
