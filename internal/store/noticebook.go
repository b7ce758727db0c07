package store

import (
	"context"
	"encoding/json"
	"fmt"

	"rubato/internal/notices"
	"rubato/internal/store/dbsqlc"
)

// maxOpen bounds the open episodes that a book knows: those beyond are closed a run later.
const maxOpen = 50_000

// Notices keeps rules, windows, episodes and notices. It implements notices.Store and courier.Store.
type Notices struct {
	db      *DB
	version int64 // of the rules in the database's book; for the one that refreshes it
	rules   []notices.Rule
}

var _ notices.Store = (*Notices)(nil)

// NewNotices returns the store of notices.
func NewNotices(db *DB) *Notices { return &Notices{db: db} }

// Refresh brings what the finishes of this process know of rules up to date. One caller at a time.
func (s *Notices) Refresh(ctx context.Context) error {
	version, err := s.db.q.NoticeBookVersion(ctx, s.db.pool)
	if err != nil {
		return fmt.Errorf("asking which version the rules of notices have: %w", translate(err))
	}
	if version != s.version {
		rows, err := s.db.q.NoticeRuleListAll(ctx, s.db.pool)
		if err != nil {
			return fmt.Errorf("reading the rules of notices: %w", translate(err))
		}
		rules := make([]notices.Rule, 0, len(rows))
		for _, row := range rows {
			r, err := ruleOf(row)
			if err != nil { // A row that no call of the API can have written: the others are not worse for it.
				continue
			}
			rules = append(rules, r)
		}
		s.version, s.rules = version, rules
	}
	book := notices.NewRuleCache(s.rules)
	if !book.Empty() {
		open, err := s.db.q.NoticeEpisodeListOpen(ctx, s.db.pool, maxOpen)
		if err != nil {
			return fmt.Errorf("reading which episodes are open: %w", translate(err))
		}
		for _, row := range open {
			book.AddOpen(row.EndpointID, notices.Event(row.Event))
		}
	}
	s.db.book.Store(book)
	return nil
}

func ruleOf(row *dbsqlc.NoticeRule) (notices.Rule, error) {
	scope, err := scopeOf(row.EndpointID, row.Labels)
	if err != nil {
		return notices.Rule{}, fmt.Errorf("reading the labels of the notice rule %q: %w", row.Name, err)
	}
	r := notices.Rule{
		ID: row.ID, TenantID: row.TenantID, Name: row.Name, Version: row.Version,
		CreatedAt: row.CreatedAt, CreatedBy: row.CreatedBy, UpdatedAt: row.UpdatedAt, UpdatedBy: row.UpdatedBy,
		Spec: notices.Spec{
			Event: notices.Event(row.Event), Scope: scope, Recovery: row.Recovery, Remind: ms(row.RemindMs), Enabled: row.Enabled,
		},
	}
	switch r.Event {
	case notices.Failures:
		r.Failures = int(row.Threshold)
	case notices.Late:
		r.Late = ms(row.Threshold)
	case notices.Lost, notices.Paused, notices.Suggestion:
	}
	if err := json.Unmarshal(row.Channel, &r.Channel); err != nil {
		return notices.Rule{}, fmt.Errorf("reading the channel of the notice rule %q: %w", row.Name, err)
	}
	return r, nil
}

func scopeOf(endpoint *[16]byte, labels json.RawMessage) (notices.Scope, error) {
	s := notices.Scope{EndpointID: orZero(endpoint)}
	found, err := textMap(labels)
	if err != nil {
		return s, err
	}
	if len(found) > 0 {
		s.Labels = found
	}
	return s, nil
}
