package store

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
)

// The kinds of hints, as rows and events name them.
const (
	hintInterval = "interval"
	hintOneShot  = "one-shot"
)

// events collects the events of a transaction for the feed.
type events struct{ rows dbsqlc.EventInsertManyParams }

// news is one event without its position in the feed.
type news struct {
	endpoint [16]byte
	kind     feed.Type
	detail   any
}

func (v *events) add(tenant [16]byte, now time.Time, list []news) {
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

// writes returns the statements that insert the events, or nil if there are none.
func (v *events) writes(ctx context.Context, db *DB) []statement {
	if len(v.rows.Kinds) == 0 {
		return nil
	}
	return []statement{func(tx dbsqlc.DBTX) error { return db.q.EventInsertMany(ctx, tx, v.rows) }}
}

func (v *events) write(ctx context.Context, tx opened, db *DB) error {
	for _, insert := range v.writes(ctx, db) {
		if err := insert(tx); err != nil {
			return fmt.Errorf("inserting %d events: %w", len(v.rows.Kinds), err)
		}
	}
	return nil
}

// tell inserts the events of a change of an endpoint. before is nil for a new endpoint.
func tell(ctx context.Context, tx pgx.Tx, db *DB, now time.Time, before, after *endpoints.Endpoint) error {
	var v events
	v.add(after.TenantID, now, newsOf(before, after))
	return v.write(ctx, tx, db)
}

// newsOf returns the events of a change: creation, edit, archival, pause and hints.
func newsOf(before, after *endpoints.Endpoint) []news {
	change := feed.Change{Version: after.Version}
	if before == nil {
		change.Action = "registered"
		return []news{{after.ID, feed.EndpointChanged, change}}
	}
	var list []news
	switch {
	case after.Archived() && !before.Archived():
		change.Action = "archived"
		return []news{{after.ID, feed.EndpointChanged, change}}
	case after.Version != before.Version:
		change.Action = "edited"
		list = append(list, news{after.ID, feed.EndpointChanged, change})
	}
	list = append(list, pauseNews(before, after)...)
	list = append(list, hintNews(after.ID, hintInterval, before.State.IntervalHint, after.State.IntervalHint)...)
	return append(list, hintNews(after.ID, hintOneShot, before.State.OneShotHint, after.State.OneShotHint)...)
}

func pauseNews(before, after *endpoints.Endpoint) []news {
	change := feed.Change{Version: after.Version}
	s := after.State
	switch {
	case s.PausedUntil.Equal(before.State.PausedUntil) && s.PauseReason == before.State.PauseReason:
		return nil
	case s.PausedUntil.IsZero():
		return []news{{after.ID, feed.EndpointResumed, change}}
	}
	change.Reason = s.PauseReason
	if s.PausedUntil.Before(governor.Indefinite) {
		change.PausedUntil = &s.PausedUntil
	}
	return []news{{after.ID, feed.EndpointPaused, change}}
}

func hintNews(id [16]byte, kind string, before, after *endpoints.Hint) []news {
	switch {
	case before == after:
		return nil
	case after == nil:
		return []news{{id, feed.HintCleared, hintDetail(kind, before)}}
	default: // Replacing a hint emits no cleared event.
		return []news{{id, feed.HintSet, hintDetail(kind, after)}}
	}
}

func hintDetail(kind string, h *endpoints.Hint) feed.Hint {
	return feed.Hint{
		Kind:       kind,
		IntervalMs: h.Interval.Milliseconds(),
		RunAt:      optional(h.At),
		ExpiresAt:  h.ExpiresAt,
		Author:     h.Author,
		Reason:     h.Reason,
	}
}
