package httpapi_test

import (
	"context"
	"errors"
	"slices"
	"strings"

	"rubato/internal/auditlog"
	"rubato/internal/auth"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/notices"
)

// The notice of these tests, which belongs to the tenant 1.
var sampleNotice = notices.ID{1, 0xb0, 6: 0x70, 8: 0x80}

// noticeStore is a notices.Store and a notices.Sender without a database.
type noticeStore struct{ m *memory }

var (
	_ notices.Store  = noticeStore{}
	_ notices.Sender = noticeStore{}
)

func (noticeStore) rule(name string) notices.Rule {
	return notices.Rule{
		Name: name, TenantID: auth.DefaultTenant(), Version: 1, CreatedAt: now, UpdatedAt: now, Spec: notices.Spec{
			Event: notices.Failures, Failures: 1, Channel: notices.Channel{Kind: notices.Slack, URLSecret: "any"},
		},
	}
}

func (noticeStore) notice() notices.Notice {
	return notices.Notice{
		ID: sampleNotice, Kind: notices.Opened, CreatedAt: now, State: notices.Dead, Attempts: 14, EndedAt: now, StatusCode: 500, Error: "no",
		Episode: notices.Episode{Rule: "any", Event: notices.Late, OpenedAt: now, Detail: notices.Detail{LateMs: 5}},
	}
}

func (s noticeStore) wrote() error {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if s.m.err == nil {
		s.m.writes++
	}
	return s.m.err
}

func (s noticeStore) known(tenant [16]byte, there bool) error {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if s.m.err == nil && (tenant != auth.DefaultTenant() || !there) {
		return errs.New(errs.NotFound, "not_found", "there is no such thing")
	}
	return s.m.err
}

// listed reports whether a tenant's list holds an entry.
func (s noticeStore) listed(tenant [16]byte) (bool, error) {
	err := s.known(tenant, true)
	if errs.CodeOf(err) == errs.NotFound {
		return false, nil
	}
	return err == nil, err
}

func (s noticeStore) PutRule(_ context.Context, _ auditlog.Actor, name string, spec notices.Spec, only endpoints.Condition) (notices.Rule, bool, error) {
	r := s.rule(name)
	r.Spec = spec
	stored := r.Version
	if name == "fresh" {
		stored = 0
	}
	return r, stored == 0, errors.Join(only.Check("notice rule", notices.CodeTaken, stored), s.wrote())
}

// Unknown reports every secret as known except "none".
func (s noticeStore) Unknown(_ context.Context, _ [16]byte, _ string, spec notices.Spec) (bad []errs.Field, err error) {
	if slices.Contains(spec.Channel.Secrets(), "none") {
		bad = append(bad, errs.Field{Field: "channel.urlSecret", Code: "secret_unknown", Message: "none"})
	}
	return bad, s.m.err
}

func (s noticeStore) GetRule(_ context.Context, tenant [16]byte, name string) (notices.Rule, error) {
	return s.rule(name), s.known(tenant, name == "any")
}

func (s noticeStore) ListRules(_ context.Context, f notices.PageFilter) ([]notices.Rule, error) {
	if some, err := s.listed(f.TenantID); !some || f.After != "" {
		return nil, err
	}
	return []notices.Rule{s.rule("any"), s.rule("other")}[:min(2, f.Limit)], nil
}

func (s noticeStore) DeleteRule(_ context.Context, by auditlog.Actor, name string, version int64) error {
	if err := s.known(by.TenantID, name == "any"); err != nil {
		return err
	}
	return errors.Join(endpoints.Condition{Version: version}.Check("notice rule", notices.CodeTaken, s.rule(name).Version), s.wrote())
}

func (s noticeStore) PutWindow(_ context.Context, _ auditlog.Actor, name string, spec notices.WindowSpec, only endpoints.Condition) (notices.Window, bool, error) {
	stored := int64(1)
	if name == "fresh" {
		stored = 0
	}
	return notices.Window{WindowSpec: spec, Name: name, CreatedAt: now}, stored == 0, errors.Join(only.Check("maintenance window", notices.CodeTaken, stored), s.wrote())
}

func (s noticeStore) ListWindows(_ context.Context, f notices.PageFilter) ([]notices.Window, error) {
	if some, err := s.listed(f.TenantID); !some || f.After != "" {
		return nil, err
	}
	w := notices.WindowSpec{StartsAt: now, EndsAt: now.Add(1), Reason: "r", Scope: notices.Scope{Labels: map[string]string{"a": "b"}}}
	return []notices.Window{{Name: "any", WindowSpec: w, CreatedAt: now}, {Name: "other", WindowSpec: w, CreatedAt: now}}[:min(2, f.Limit)], nil
}

func (s noticeStore) DeleteWindow(ctx context.Context, by auditlog.Actor, name string) error {
	return s.DeleteRule(ctx, by, name, 0)
}

func (s noticeStore) ListNotices(_ context.Context, f notices.Filter) ([]notices.Notice, error) {
	if some, err := s.listed(f.TenantID); !some || f.Before != (notices.ID{}) {
		return nil, err
	}
	return []notices.Notice{s.notice(), s.notice()}[:min(2, f.Limit)], nil
}

func (s noticeStore) RetryNotice(_ context.Context, by auditlog.Actor, id notices.ID) (notices.Notice, error) {
	if err := s.known(by.TenantID, id == sampleNotice); err != nil {
		if errs.CodeOf(err) == errs.NotFound {
			return notices.Notice{}, errs.New(errs.NotFound, "not_found", "there is no such notice")
		}
		return notices.Notice{}, err
	}
	return s.notice(), s.wrote()
}

func (s noticeStore) Test(_ context.Context, _ auditlog.Actor, r notices.Rule) (notices.Result, error) {
	return notices.Result{StatusCode: 403, Error: "the receiver answered with status 403 to " + r.Name}, s.wrote()
}

// reachable permits every channel without a private host.
type reachable struct{}

func (reachable) CheckURL(url string) *errs.Field {
	if strings.Contains(url, "127.0.0.1") {
		return &errs.Field{Code: "url_forbidden", Message: "must name a public address"}
	}
	return nil
}

func (reachable) CheckRecipient(string) *errs.Field { return nil }
