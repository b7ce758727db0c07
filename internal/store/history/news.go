package history

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/endpoints"
	"rubato/internal/feed"
	"rubato/internal/governor"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// The kinds of hints, as rows and events name them.
const (
	HintInterval = "interval"
	HintOneShot  = "one-shot"
)

// Events collects the events of a transaction for the feed.
type Events struct{ rows dbsqlc.EventInsertManyParams }

// News is one event without its position in the feed.
type News struct {
	endpoint [16]byte
	kind     feed.Type
	detail   any
}

// Add appends events of a tenant.
func (v *Events) Add(tenant [16]byte, now time.Time, list []News) {
	for _, n := range list {
		raw, err := json.Marshal(n.detail)
		if err != nil {
			panic(err) // Texts, numbers and instants between 2020 and 2200 always encode.
		}
		v.rows.TenantIds = append(v.rows.TenantIds, tenant)
		v.rows.EndpointIds = append(v.rows.EndpointIds, n.endpoint)
		v.rows.At = append(v.rows.At, now)
		v.rows.Kinds = append(v.rows.Kinds, string(n.kind))
		v.rows.Details = append(v.rows.Details, string(raw))
	}
}

// Writes returns the statements that insert the events, or nil if there are none.
func (v *Events) Writes(ctx context.Context, db *pg.DB) []pg.Statement {
	if len(v.rows.Kinds) == 0 {
		return nil
	}
	return []pg.Statement{func(tx dbsqlc.DBTX) error { return db.Q.EventInsertMany(ctx, tx, v.rows) }}
}

// Write inserts the events.
func (v *Events) Write(ctx context.Context, tx pg.OpenTx, db *pg.DB) error {
	for _, insert := range v.Writes(ctx, db) {
		if err := insert(tx); err != nil {
			return fmt.Errorf("inserting %d events: %w", len(v.rows.Kinds), err)
		}
	}
	return nil
}

// Tell inserts the events of a change of an endpoint. before is nil for a new endpoint.
func Tell(ctx context.Context, tx pgx.Tx, db *pg.DB, now time.Time, before, after *endpoints.Endpoint) error {
	var v Events
	v.Add(after.TenantID, now, NewsOf(before, after))
	return v.Write(ctx, tx, db)
}

// NewsOf returns the events of a change: creation, edit, archival, pause and hints.
func NewsOf(before, after *endpoints.Endpoint) []News {
	change := feed.Change{Version: after.Version}
	if before == nil {
		change.Action = "registered"
		return []News{{after.ID, feed.EndpointChanged, change}}
	}
	var list []News
	switch {
	case after.Archived() && !before.Archived():
		change.Action = "archived"
		return []News{{after.ID, feed.EndpointChanged, change}}
	case after.Version != before.Version:
		change.Action = "edited"
		list = append(list, News{after.ID, feed.EndpointChanged, change})
	}
	list = append(list, pauseNews(before, after)...)
	list = append(list, HintNews(after.ID, HintInterval, before.State.IntervalHint, after.State.IntervalHint)...)
	return append(list, HintNews(after.ID, HintOneShot, before.State.OneShotHint, after.State.OneShotHint)...)
}

func pauseNews(before, after *endpoints.Endpoint) []News {
	change := feed.Change{Version: after.Version}
	s := after.State
	switch {
	case s.PausedUntil.Equal(before.State.PausedUntil) && s.PauseReason == before.State.PauseReason:
		return nil
	case s.PausedUntil.IsZero():
		return []News{{after.ID, feed.EndpointResumed, change}}
	}
	change.Reason = s.PauseReason
	if s.PausedUntil.Before(governor.Indefinite) {
		change.PausedUntil = &s.PausedUntil
	}
	return []News{{after.ID, feed.EndpointPaused, change}}
}

// HintNews returns the events of a changed hint.
func HintNews(id [16]byte, kind string, before, after *endpoints.Hint) []News {
	switch {
	case before == after:
		return nil
	case after == nil:
		return []News{{id, feed.HintCleared, hintDetail(kind, before)}}
	default: // Replacing a hint emits no cleared event.
		return []News{{id, feed.HintSet, hintDetail(kind, after)}}
	}
}

func hintDetail(kind string, h *endpoints.Hint) feed.Hint {
	return feed.Hint{
		Kind:       kind,
		IntervalMs: h.Interval.Milliseconds(),
		RunAt:      pg.Optional(h.At),
		ExpiresAt:  h.ExpiresAt,
		Author:     h.Author,
		Reason:     h.Reason,
	}
}
