package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"rubato/client"
)

// changesCmd is `rubato changes`.
type changesCmd struct {
	serverFlag
	period

	Object string `placeholder:"ID" help:"Filter by object id, such as ep_... or key_...."`
	Kind   string `help:"Filter by kind of object, such as endpoint, key, run or secret."`
	By     string `placeholder:"KEY" help:"Filter by the id of the API key that made the change (key_...)."`
	Action string `help:"Filter by action, such as register, edit, pause or revoke."`
	Limit  int32  `default:"50" help:"Maximum number of results."`
	Cursor string `help:"Cursor of the next page, from the previous list."`
}

// Run prints the entries of the audit log.
func (cmd *changesCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	from, to := cmd.bounds(time.Now())
	raw, err := r.read(r.api.ListAuditWithResponse(ctx, &client.ListAuditParams{
		Object: given(cmd.Object),
		Kind:   given(client.AuditKind(cmd.Kind)),
		Actor:  given(cmd.By),
		Action: given(client.AuditAction(cmd.Action)),
		From:   from,
		To:     to,
		Limit:  &cmd.Limit,
		Cursor: given(cmd.Cursor),
	}))
	if err != nil {
		return err
	}
	return list(s, raw, []string{"WHEN", "WHO", "DID", "TO", "FIELDS", "FROM"}, func(e client.AuditEntry) []string {
		return []string{instant(&e.At), e.Actor.Name, string(e.Action), e.ObjectID, dash(changed(e)), dash(text(e.RemoteAddress))}
	})
}

// changed returns the names of the changed fields. It is empty for a created or deleted object,
// because the whole object changed.
func changed(e client.AuditEntry) string {
	if e.Before == nil || e.After == nil {
		return ""
	}
	names := map[string]bool{}
	for _, members := range []map[string]any{*e.Before, *e.After} {
		for name := range members {
			names[name] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), ",")
}
