package store

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

	"rubato/internal/notices"
	"rubato/internal/store/dbsqlc"
)

// maxOpen bounds the open episodes in a rule cache. An episode beyond it is closed by a later run.
const maxOpen = 50_000

// Notices stores rules, windows, episodes and notices. It implements notices.Store and
// courier.Store.
type Notices struct {
	db *DB
	// cache receives the rules that Refresh loads.
	cache *atomic.Pointer[notices.RuleCache]
	// version and rules are the last loaded rules. Only Refresh uses them, so they need no lock.
	version int64
	rules   []notices.Rule
}

var _ notices.Store = (*Notices)(nil)

// NewNotices returns the store of notices. Its Refresh replaces cache.
func NewNotices(db *DB, cache *atomic.Pointer[notices.RuleCache]) *Notices {
	return &Notices{db: db, cache: cache}
}

// Refresh updates the rule cache that finishes use. It reloads the rules only if their version
// changed. It must not be called concurrently.
func (s *Notices) Refresh(ctx context.Context) error {
	version, err := s.db.q.NoticeBookVersion(ctx, s.db.pool)
	if err != nil {
		return fmt.Errorf("reading the version of the notice rules: %w", translate(err))
	}
	if version != s.version {
		rows, err := s.db.q.NoticeRuleListAll(ctx, s.db.pool)
		if err != nil {
			return fmt.Errorf("reading the notice rules: %w", translate(err))
		}
		rules := make([]notices.Rule, 0, len(rows))
		for _, row := range rows {
			r, err := ruleOf(row)
			if err != nil { // The API does not write such rows. Skip it, so that the other rules work.
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
			return fmt.Errorf("reading the open episodes: %w", translate(err))
		}
		for _, row := range open {
			book.AddOpen(row.EndpointID, notices.Event(row.Event))
		}
	}
	s.cache.Store(book)
	return nil
}

func ruleOf(row *dbsqlc.NoticeRule) (notices.Rule, error) {
	scope, err := scopeOf(row.EndpointID, row.Labels)
	if err != nil {
		return notices.Rule{}, fmt.Errorf("reading the labels of the notice rule %q: %w", row.Name, err)
	}
	r := notices.Rule{
		ID:        row.ID,
		TenantID:  row.TenantID,
		Name:      row.Name,
		Version:   row.Version,
		CreatedAt: row.CreatedAt,
		CreatedBy: row.CreatedBy,
		UpdatedAt: row.UpdatedAt,
		UpdatedBy: row.UpdatedBy,
		Spec: notices.Spec{
			Event:    notices.Event(row.Event),
			Scope:    scope,
			Recovery: row.Recovery,
			Remind:   ms(row.RemindMs),
			Enabled:  row.Enabled,
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
