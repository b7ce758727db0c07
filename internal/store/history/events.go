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

// Event is one event without its position in the feed.
type Event struct {
	endpoint [16]byte
	kind     feed.Type
	detail   any
}

// Add appends events of a tenant.
func (v *Events) Add(tenant [16]byte, now time.Time, list []Event) {
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

// WriteEvents inserts the events of a change of an endpoint. before is nil for a new endpoint.
func WriteEvents(ctx context.Context, tx pgx.Tx, db *pg.DB, now time.Time, before, after *endpoints.Endpoint) error {
	var v Events
	v.Add(after.TenantID, now, EventsOf(before, after))
	return v.Write(ctx, tx, db)
}

// EventsOf returns the events of a change: creation, edit, archival, pause and hints.
func EventsOf(before, after *endpoints.Endpoint) []Event {
	change := feed.Change{Version: after.Version}
	if before == nil {
		change.Action = "registered"
		return []Event{{after.ID, feed.EndpointChanged, change}}
	}
	var list []Event
	switch {
	case after.Archived() && !before.Archived():
		change.Action = "archived"
		return []Event{{after.ID, feed.EndpointChanged, change}}
	case after.Version != before.Version:
		change.Action = "edited"
		list = append(list, Event{after.ID, feed.EndpointChanged, change})
	}
	list = append(list, pauseEvents(before, after)...)
	list = append(list, HintEvents(after.ID, HintInterval, before.State.IntervalHint, after.State.IntervalHint)...)
	return append(list, HintEvents(after.ID, HintOneShot, before.State.OneShotHint, after.State.OneShotHint)...)
}

func pauseEvents(before, after *endpoints.Endpoint) []Event {
	change := feed.Change{Version: after.Version}
	s := after.State
	switch {
	case s.PausedUntil.Equal(before.State.PausedUntil) && s.PauseReason == before.State.PauseReason:
		return nil
	case s.PausedUntil.IsZero():
		return []Event{{after.ID, feed.EndpointResumed, change}}
	}
	change.Reason = s.PauseReason
	if s.PausedUntil.Before(governor.Indefinite) {
		change.PausedUntil = &s.PausedUntil
	}
	return []Event{{after.ID, feed.EndpointPaused, change}}
}

// HintEvents returns the events of a changed hint.
func HintEvents(id [16]byte, kind string, before, after *endpoints.Hint) []Event {
	switch {
	case before == after:
		return nil
	case after == nil:
		return []Event{{id, feed.HintCleared, hintDetail(kind, before)}}
	default: // Replacing a hint emits no cleared event.
		return []Event{{id, feed.HintSet, hintDetail(kind, after)}}
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
