// Package notices stores notice rules, maintenance windows, episodes and the outbox of notices. An
// episode opens in the transaction of its cause, so that no notice is lost.
package notices

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

	"rubato/internal/notices"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// maxOpen bounds the open episodes in a rule cache. An episode beyond it is closed by a later run.
const maxOpen = 50_000

// Store stores rules, windows, episodes and notices. It implements notices.Store and
// courier.Store.
type Store struct {
	db *pg.DB
	// cache receives the rules that Refresh loads.
	cache *atomic.Pointer[notices.RuleCache]
	// version and rules are the last loaded rules. Only Refresh uses them, so they need no lock.
	version int64
	rules   []notices.Rule
	// due is the mark of the due times that watches scan.
	due pg.LowWaterMark
}

var _ notices.Store = (*Store)(nil)

// NewStore returns the store of notices. Its Refresh replaces cache.
func NewStore(db *pg.DB, cache *atomic.Pointer[notices.RuleCache]) *Store {
	return &Store{db: db, cache: cache}
}

// Refresh updates the rule cache that finishes use. It reloads the rules only if their version
// changed. It must not be called concurrently.
func (s *Store) Refresh(ctx context.Context) error {
	version, err := s.db.Q.NoticeRulesVersionGet(ctx, s.db.Pool)
	if err != nil {
		return fmt.Errorf("reading the version of the notice rules: %w", pg.Translate(err))
	}
	if version != s.version {
		rows, err := s.db.Q.NoticeRuleListAll(ctx, s.db.Pool)
		if err != nil {
			return fmt.Errorf("reading the notice rules: %w", pg.Translate(err))
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
		open, err := s.db.Q.NoticeEpisodeListOpen(ctx, s.db.Pool, maxOpen)
		if err != nil {
			return fmt.Errorf("reading the open episodes: %w", pg.Translate(err))
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
			Remind:   pg.Millis(row.RemindMs),
			Enabled:  row.Enabled,
		},
	}
	switch r.Event {
	case notices.Failures:
		r.Failures = int(row.Threshold)
	case notices.Late:
		r.Late = pg.Millis(row.Threshold)
	case notices.Lost, notices.Paused, notices.Suggestion, notices.HostOpen, notices.DeadLetter, notices.Unroutable:
	}
	if err := json.Unmarshal(row.Channel, &r.Channel); err != nil {
		return notices.Rule{}, fmt.Errorf("reading the channel of the notice rule %q: %w", row.Name, err)
	}
	return r, nil
}

func scopeOf(endpoint *[16]byte, labels json.RawMessage) (notices.Scope, error) {
	s := notices.Scope{EndpointID: pg.OrZero(endpoint)}
	found, err := pg.DecodeTexts(labels)
	if err != nil {
		return s, err
	}
	if len(found) > 0 {
		s.Labels = found
	}
	return s, nil
}
