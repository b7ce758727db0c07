package notices

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/auditlog"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/notices"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// ruleCacheMaxAge is the time after which every process uses a changed rule. It exceeds the refresh
// interval of the rule cache.
const ruleCacheMaxAge = 10 * time.Second

// PutRule implements notices.Rules.
func (s *Store) PutRule(
	ctx context.Context, by auditlog.Actor, name string, spec notices.Spec, only endpoints.Condition,
) (stored notices.Rule, created bool, err error) {
	err = s.change(ctx, func(tx pgx.Tx) error {
		before, err := s.rule(ctx, tx, by.TenantID, name)
		if created = errs.CodeOf(err) == errs.NotFound; err != nil && !created {
			return err
		}
		if err := only.Check("notice rule", notices.CodeTaken, before.Version); err != nil {
			return err
		}
		if err := s.admit(ctx, tx, by.TenantID, spec, before); err != nil {
			return err
		}
		if stored, err = s.put(ctx, tx, by, name, spec); err != nil {
			return err
		}
		c := auditlog.Change{
			Act:    auditlog.Act{By: by, Action: auditlog.Create},
			Object: stored.Object(),
			After:  stored.Redacted(),
		}
		if !created {
			c.Action, c.Before = auditlog.Edit, before.Redacted()
			if err := s.endChangedEpisodes(ctx, tx, before, spec); err != nil {
				return err
			}
		}
		return s.db.Audited(ctx, tx, c)
	})
	return stored, created, err
}

// change runs a change of rules or windows. Changes are serialized by a lock on the version row, so
// that their reads stay valid until they write. Window changes also invalidate the rule cache. That
// is harmless because they are rare.
func (s *Store) change(ctx context.Context, act func(tx pgx.Tx) error) error {
	return s.db.Tx(ctx, func(tx pgx.Tx) error {
		if _, err := s.db.Q.NoticeRulesVersionIncrement(ctx, tx); err != nil {
			return fmt.Errorf("incrementing the version of the notice rules: %w", err)
		}
		return act(tx)
	})
}

// admit checks a rule: it must refer to existing endpoints and secrets of the tenant, and a new
// rule must not exceed the limit. A zero before means a new rule.
func (s *Store) admit(ctx context.Context, tx pgx.Tx, tenant [16]byte, spec notices.Spec, before notices.Rule) error {
	if before.Version == 0 {
		count, err := s.db.Q.NoticeRuleCount(ctx, tx, tenant)
		if err != nil {
			return fmt.Errorf("counting the notice rules of a tenant: %w", err)
		}
		if count >= notices.MaxRules {
			return errs.New(errs.Conflict, "too_many_rules", fmt.Sprintf("the tenant has %d notice rules, which is the maximum; delete one first", count))
		}
	}
	unknown, err := s.unknown(ctx, tx, tenant, spec, before.Scope)
	if err != nil {
		return err
	}
	return errs.InvalidFields(unknown)
}

// Unknown implements notices.Rules.
func (s *Store) Unknown(ctx context.Context, tenant [16]byte, name string, spec notices.Spec) (bad []errs.Field, err error) {
	err = s.db.Tx(ctx, func(tx pgx.Tx) error {
		before, err := s.rule(ctx, tx, tenant, name)
		if err != nil && errs.CodeOf(err) != errs.NotFound {
			return err
		}
		bad, err = s.unknown(ctx, tx, tenant, spec, before.Scope)
		return err
	})
	return bad, err
}

// unknown returns the fields of a rule that refer to missing endpoints or secrets. For stored see
// unknownEndpoint.
func (s *Store) unknown(ctx context.Context, tx pgx.Tx, tenant [16]byte, spec notices.Spec, stored notices.Scope) ([]errs.Field, error) {
	bad, err := s.unknownEndpoint(ctx, tx, tenant, spec.Scope, stored)
	if err != nil {
		return nil, err
	}
	secrets, err := s.unknownSecrets(ctx, tx, tenant, spec.Channel)
	return append(bad, secrets...), err
}

// unknownEndpoint checks that the endpoint of a scope belongs to the tenant and is not archived.
// The endpoint of the stored scope is always accepted, so that a rule stays editable after its
// endpoint was archived.
func (s *Store) unknownEndpoint(ctx context.Context, tx pgx.Tx, tenant [16]byte, scope, stored notices.Scope) ([]errs.Field, error) {
	if id := scope.EndpointID; id == (endpoints.ID{}) || id == stored.EndpointID {
		return nil, nil
	}
	row, err := s.db.Q.EndpointGet(ctx, tx, dbsqlc.EndpointGetParams{ID: scope.EndpointID, TenantID: tenant})
	if pg.IsMissing(err) || err == nil && row.ArchivedAt != nil {
		return []errs.Field{{
			Field:   "endpointId",
			Code:    "endpoint_unknown",
			Message: "must name an endpoint of yours that is not archived",
		}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading endpoint %s: %w", scope.EndpointID, err)
	}
	return nil, nil
}

// unknownSecrets checks that the secrets of a channel exist. It locks them, so that they cannot be
// deleted before the rule is stored.
func (s *Store) unknownSecrets(ctx context.Context, tx pgx.Tx, tenant [16]byte, c notices.Channel) (bad []errs.Field, err error) {
	names := c.Secrets()
	if len(names) == 0 {
		return nil, nil
	}
	found, err := s.db.Q.SecretsLockShared(ctx, tx, dbsqlc.SecretsLockSharedParams{TenantID: tenant, Names: pg.ValidNames(names)})
	if err != nil {
		return nil, fmt.Errorf("looking up %d secrets: %w", len(names), err)
	}
	for _, given := range []struct{ field, name string }{{"channel.urlSecret", c.URLSecret}, {"channel.tokenSecret", c.TokenSecret}} {
		if given.name != "" && !slices.Contains(found, given.name) {
			bad = append(bad, errs.Field{
				Field:   given.field,
				Code:    "secret_unknown",
				Message: fmt.Sprintf("must name an existing secret; there is no %q", given.name),
			})
		}
	}
	return bad, nil
}

func (s *Store) put(ctx context.Context, tx pgx.Tx, by auditlog.Actor, name string, spec notices.Spec) (notices.Rule, error) {
	now, err := s.db.DecisionTime(ctx, tx)
	if err != nil {
		return notices.Rule{}, fmt.Errorf("reading the database's time: %w", err)
	}
	channel, err := json.Marshal(spec.Channel)
	if err != nil {
		return notices.Rule{}, fmt.Errorf("encoding the channel of the notice rule %q: %w", name, err)
	}
	p := dbsqlc.NoticeRulePutParams{
		TenantID:   by.TenantID,
		Name:       name,
		Event:      string(spec.Event),
		Threshold:  spec.Threshold(),
		EndpointID: pg.Given(spec.Scope.EndpointID),
		Labels:     pg.EncodeTexts(spec.Scope.Labels),
		Recovery:   spec.Recovery,
		RemindMs:   spec.Remind.Milliseconds(),
		Enabled:    spec.Enabled,
		Channel:    channel,
		Now:        now,
		Author:     pg.Storable(by.Name),
		ScanFrom:   now.Add(ruleCacheMaxAge),
	}
	if spec.Enabled && spec.Event == notices.Failures {
		p.ScanCursor = new([16]byte)
	}
	row, err := s.db.Q.NoticeRulePut(ctx, tx, p)
	if err != nil {
		return notices.Rule{}, fmt.Errorf("storing the notice rule %q: %w", name, err)
	}
	return ruleOf(row)
}

// endChangedEpisodes closes the open episodes of a rule after a change of its condition. If only
// the receiver changed, ongoing episodes move to the new receiver. If only the reminder interval
// changed, the next reminders are rescheduled.
func (s *Store) endChangedEpisodes(ctx context.Context, tx pgx.Tx, before notices.Rule, spec notices.Spec) error {
	same, leaves := before.SameEpisodes(spec), before.ChangesReceiver(spec)
	now, err := s.db.DecisionTime(ctx, tx)
	if err != nil {
		return fmt.Errorf("reading the database's time: %w", err)
	}
	if same && !leaves {
		return s.remindSooner(ctx, tx, now, before, spec)
	}
	ended, err := s.end(ctx, tx, now, before, notices.RuleChanged)
	if err != nil {
		return err
	}
	if leaves {
		if err := s.keepChannel(ctx, tx, before); err != nil {
			return err
		}
	}
	if !same || len(ended) == 0 {
		return nil
	}
	if err := s.db.Q.NoticeReopen(ctx, tx, dbsqlc.NoticeReopenParams{Now: now, Ids: ended}); err != nil {
		return fmt.Errorf("moving %d episodes of the notice rule %q to its new receiver: %w", len(ended), before.Name, err)
	}
	return nil
}

// remindSooner moves the next reminders of a rule to its new interval if they would come later.
func (s *Store) remindSooner(ctx context.Context, tx pgx.Tx, now time.Time, before notices.Rule, spec notices.Spec) error {
	if spec.Remind == 0 || spec.Remind == before.Remind {
		return nil
	}
	p := dbsqlc.NoticeRemindSoonerParams{RuleID: before.ID, RemindAt: now.Add(spec.Remind)}
	if err := s.db.Q.NoticeRemindSooner(ctx, tx, p); err != nil {
		return fmt.Errorf("rescheduling the reminders of the notice rule %q: %w", before.Name, err)
	}
	return nil
}

// end closes the open episodes of a rule and returns their IDs. If the channel has a closing
// message, the receiver gets it.
func (s *Store) end(ctx context.Context, tx pgx.Tx, now time.Time, r notices.Rule, why notices.Cause) ([]dbsqlc.UUID, error) {
	ended, err := s.db.Q.NoticeRuleCloseEpisodes(ctx, tx, dbsqlc.NoticeRuleCloseEpisodesParams{Now: now, RuleID: r.ID})
	if err != nil {
		return nil, fmt.Errorf("ending the episodes of the notice rule %q: %w", r.Name, err)
	}
	if r.Closes() {
		err = s.withdraw(ctx, tx, now, ended, why)
	}
	return ended, err
}

// withdraw writes the closing notice of episodes that were closed without one.
func (s *Store) withdraw(ctx context.Context, tx pgx.Tx, now time.Time, ended []dbsqlc.UUID, why notices.Cause) error {
	if len(ended) == 0 {
		return nil
	}
	p := dbsqlc.NoticeWithdrawParams{
		Now:    now,
		Ids:    ended,
		Cause:  string(why),
		LockMs: notices.Lock.Milliseconds(),
	}
	if err := s.db.Q.NoticeWithdraw(ctx, tx, p); err != nil {
		return fmt.Errorf("writing the last notices of %d episodes: %w", len(ended), err)
	}
	return nil
}

// keepChannel copies the channel of a rule to its waiting and dead closing notices, because the
// rule is deleted or gets another channel. So a closing notice reaches the receiver of the opening
// notice.
func (s *Store) keepChannel(ctx context.Context, tx pgx.Tx, r notices.Rule) error {
	channel, err := json.Marshal(r.Channel)
	if err != nil {
		return fmt.Errorf("encoding the channel of the notice rule %q: %w", r.Name, err)
	}
	p := dbsqlc.NoticeKeepChannelParams{
		TenantID: r.TenantID,
		RuleID:   r.ID,
		Channel:  channel,
	}
	if err := s.db.Q.NoticeKeepChannel(ctx, tx, p); err != nil {
		return fmt.Errorf("storing the old channel of the notice rule %q: %w", r.Name, err)
	}
	return nil
}

// GetRule implements notices.Rules.
func (s *Store) GetRule(ctx context.Context, tenant [16]byte, name string) (notices.Rule, error) {
	r, err := s.rule(ctx, s.db.Pool, tenant, name)
	return r, pg.Translate(err)
}

func (s *Store) rule(ctx context.Context, tx dbsqlc.DBTX, tenant [16]byte, name string) (notices.Rule, error) {
	row, err := s.db.Q.NoticeRuleGet(ctx, tx, dbsqlc.NoticeRuleGetParams{TenantID: tenant, Name: pg.Storable(name)})
	if pg.IsMissing(err) {
		return notices.Rule{}, pg.NothingNamed("notice rule", name, "shop-failures")
	}
	if err != nil {
		return notices.Rule{}, fmt.Errorf("reading the notice rule %q: %w", name, err)
	}
	return ruleOf(row)
}

// ListRules implements notices.Rules.
func (s *Store) ListRules(ctx context.Context, f notices.PageFilter) ([]notices.Rule, error) {
	rows, err := s.db.Q.NoticeRuleList(ctx, s.db.Pool, dbsqlc.NoticeRuleListParams{
		TenantID: f.TenantID,
		After:    f.After,
		MaxRows:  int32(f.Limit),
	})
	if err != nil {
		return nil, fmt.Errorf("listing notice rules: %w", pg.Translate(err))
	}
	list := make([]notices.Rule, len(rows))
	for i, row := range rows {
		if list[i], err = ruleOf(row); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// DeleteRule implements notices.Rules.
func (s *Store) DeleteRule(ctx context.Context, by auditlog.Actor, name string, version int64) error {
	return s.change(ctx, func(tx pgx.Tx) error {
		r, err := s.rule(ctx, tx, by.TenantID, name)
		if err != nil {
			return err
		}
		if err := (endpoints.Condition{Version: version}).Check("notice rule", notices.CodeTaken, r.Version); err != nil {
			return err
		}
		if _, err := s.db.Q.NoticeRuleDelete(ctx, tx, dbsqlc.NoticeRuleDeleteParams{ID: r.ID, TenantID: by.TenantID}); err != nil {
			return fmt.Errorf("deleting the notice rule %q: %w", name, err)
		}
		now, err := s.db.DecisionTime(ctx, tx)
		if err != nil {
			return fmt.Errorf("reading the database's time: %w", err)
		}
		if _, err := s.end(ctx, tx, now, r, notices.RuleDeleted); err != nil {
			return err
		}
		if r.Closes() {
			if err := s.keepChannel(ctx, tx, r); err != nil {
				return err
			}
		}
		return s.db.Audited(ctx, tx, auditlog.Change{
			Act:    auditlog.Act{By: by, Action: auditlog.Delete},
			Object: r.Object(),
			Before: r.Redacted(),
		})
	})
}
