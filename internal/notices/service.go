package notices

import (
	"context"

	"rubato/internal/auditlog"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
)

// CodeTaken is the code of what refuses a rule or a window that was to be a new one.
const CodeTaken = "name_taken"

// Rules keeps rules. Every method is one transaction, scoped by tenant: another tenant's rule is [errs.NotFound]. Writes are told of in
// the audit log.
type Rules interface {
	// PutRule stores a rule under a name or replaces the one of that name, whose open episodes end where it is about something else now, or
	// goes elsewhere from a receiver that keeps them: such a one is told, any other hears nothing. What goes on is told elsewhere then. One more
	// than [MaxRules], an endpoint or a secret that the tenant does not have is refused; so is a rule where only is not met. An endpoint that was
	// archived since may stay named.
	PutRule(ctx context.Context, by auditlog.Actor, name string, s Spec, only endpoints.Condition) (stored Rule, created bool, err error)
	// Unknown returns the fields of a rule of a name that name what the tenant does not have: an endpoint or secrets. PutRule refuses it for them.
	Unknown(ctx context.Context, tenant [16]byte, name string, s Spec) ([]errs.Field, error)
	// GetRule returns a rule.
	GetRule(ctx context.Context, tenant [16]byte, name string) (Rule, error)
	// ListRules returns the rules that a filter selects, by name.
	ListRules(ctx context.Context, f PageFilter) ([]Rule, error)
	// DeleteRule removes a rule, if it has a version; 0 is any. Its open episodes end; a receiver that keeps them is told, any other hears nothing.
	DeleteRule(ctx context.Context, by auditlog.Actor, name string, version int64) error
}

// Windows keeps maintenance windows, under the same promises as [Rules].
type Windows interface {
	// PutWindow stores a window under a name or replaces the one of that name, whose version is always 1. It is refused where only is not met.
	PutWindow(ctx context.Context, by auditlog.Actor, name string, s WindowSpec, only endpoints.Condition) (stored Window, created bool, err error)
	// ListWindows returns the windows that a filter selects, by name.
	ListWindows(ctx context.Context, f PageFilter) ([]Window, error)
	// DeleteWindow removes a window. What it held is told if it still holds.
	DeleteWindow(ctx context.Context, by auditlog.Actor, name string) error
}

// Log shows what was told.
type Log interface {
	// ListNotices returns the notices that a filter selects, the newest first. An endpoint that the tenant does not have is [errs.NotFound].
	ListNotices(ctx context.Context, f Filter) ([]Notice, error)
	// RetryNotice lets a notice that was given up be sent again, under the same ID. Any other one is an [errs.Conflict].
	RetryNotice(ctx context.Context, by auditlog.Actor, id ID) (Notice, error)
}

// Store is everything that a [Service] keeps.
type Store interface {
	Rules
	Windows
	Log
}

// Sender sends the test of a rule.
type Sender interface {
	// Test sends a notice that says it is a test, once, to where the rule says.
	Test(ctx context.Context, by auditlog.Actor, r Rule) (Result, error)
}

// Service is what may be done to rules, windows and notices. It is safe for concurrent use.
type Service struct {
	Store

	permit func(tenant [16]byte) Permissions
	sender Sender
}

// NewService returns a service over a store, which asks permit what the channels of a tenant may reach.
func NewService(store Store, permit func(tenant [16]byte) Permissions, sender Sender) *Service {
	return &Service{Store: store, permit: permit, sender: sender}
}

// PutRule stores a rule or replaces it. See [Rules].
func (s *Service) PutRule(
	ctx context.Context, by auditlog.Actor, name string, spec Spec, only endpoints.Condition,
) (stored Rule, created bool, err error) {
	if err := s.CheckRule(by, name, spec); err != nil {
		return Rule{}, false, err
	}
	return s.Store.PutRule(ctx, by, name, spec, only)
}

// CheckRule returns what PutRule would refuse without asking the store.
func (s *Service) CheckRule(by auditlog.Actor, name string, spec Spec) error {
	return spec.Check(name, s.permit(by.TenantID))
}

// PutWindow stores a maintenance window or replaces it. See [Windows].
func (s *Service) PutWindow(
	ctx context.Context, by auditlog.Actor, name string, spec WindowSpec, only endpoints.Condition,
) (stored Window, created bool, err error) {
	if err := spec.Check(name); err != nil {
		return Window{}, false, err
	}
	return s.Store.PutWindow(ctx, by, name, spec, only)
}

// TestRule sends a test to where a rule says, and returns what came of it.
func (s *Service) TestRule(ctx context.Context, by auditlog.Actor, name string) (Result, error) {
	r, err := s.GetRule(ctx, by.TenantID, name)
	if err != nil {
		return Result{}, err
	}
	return s.sender.Test(ctx, by, r)
}
