package notices

import (
	"context"

	"rubato/internal/auditlog"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
)

// CodeTaken is the error code for a new rule or window with a name in use.
const CodeTaken = "name_taken"

// Rules stores rules. Every method is one transaction, scoped by tenant: another tenant's rule is
// [errs.NotFound]. Writes are recorded in the audit log.
type Rules interface {
	// PutRule creates or replaces a rule. Open episodes end if the new rule no longer covers them,
	// or if its receiver changed and the old one keeps state. Such a receiver gets a notice of the
	// end; others get none. Episodes that go on use the new channel. PutRule refuses more than
	// [MaxRules] rules, an unknown endpoint or secret, and a violated condition in only. A
	// reference to an endpoint that was archived since is kept.
	PutRule(ctx context.Context, by auditlog.Actor, name string, s Spec, only endpoints.Condition) (stored Rule, created bool, err error)
	// Unknown returns the fields of a rule that refer to an endpoint or secrets that the tenant
	// does not have. PutRule refuses the same fields.
	Unknown(ctx context.Context, tenant [16]byte, name string, s Spec) ([]errs.Field, error)
	// GetRule returns a rule.
	GetRule(ctx context.Context, tenant [16]byte, name string) (Rule, error)
	// ListRules returns the rules that a filter selects, sorted by name.
	ListRules(ctx context.Context, f PageFilter) ([]Rule, error)
	// DeleteRule removes a rule if it has a version; 0: any. Its open episodes end. A receiver that
	// keeps state gets a notice of the end; others get none.
	DeleteRule(ctx context.Context, by auditlog.Actor, name string, version int64) error
}

// Windows stores maintenance windows, with the same guarantees as [Rules].
type Windows interface {
	// PutWindow creates or replaces a window; its version is always 1. It is refused if the
	// condition only does not hold.
	PutWindow(ctx context.Context, by auditlog.Actor, name string, s WindowSpec, only endpoints.Condition) (stored Window, created bool, err error)
	// ListWindows returns the windows that a filter selects, sorted by name.
	ListWindows(ctx context.Context, f PageFilter) ([]Window, error)
	// DeleteWindow removes a window. Notices that it held back are sent if their episodes are still
	// open.
	DeleteWindow(ctx context.Context, by auditlog.Actor, name string) error
}

// Log reads notices and resends dead ones.
type Log interface {
	// ListNotices returns the notices that a filter selects, newest first. An unknown endpoint is
	// [errs.NotFound].
	ListNotices(ctx context.Context, f Filter) ([]Notice, error)
	// RetryNotice queues a dead notice again, under the same ID. For any other state the error is
	// an [errs.Conflict].
	RetryNotice(ctx context.Context, by auditlog.Actor, id ID) (Notice, error)
}

// Store is the storage of a [Service].
type Store interface {
	Rules
	Windows
	Log
}

// Sender sends the test of a rule.
type Sender interface {
	// Test sends a notice that is marked as a test, once, by the channel of the rule.
	Test(ctx context.Context, by auditlog.Actor, r Rule) (Result, error)
}

// Service implements the operations on rules, windows and notices. It is safe for concurrent use.
type Service struct {
	Store

	permit func(tenant [16]byte) Permissions
	sender Sender
}

// NewService returns a service over a store. permit returns the permissions of a tenant's channels.
func NewService(store Store, permit func(tenant [16]byte) Permissions, sender Sender) *Service {
	return &Service{
		Store:  store,
		permit: permit,
		sender: sender,
	}
}

// PutRule creates or replaces a rule after validating it. See [Rules].
func (s *Service) PutRule(
	ctx context.Context, by auditlog.Actor, name string, spec Spec, only endpoints.Condition,
) (stored Rule, created bool, err error) {
	if err := s.CheckRule(by, name, spec); err != nil {
		return Rule{}, false, err
	}
	return s.Store.PutRule(ctx, by, name, spec, only)
}

// CheckRule validates a rule without access to the store.
func (s *Service) CheckRule(by auditlog.Actor, name string, spec Spec) error {
	return spec.Check(name, s.permit(by.TenantID))
}

// PutWindow creates or replaces a maintenance window after validating it. See [Windows].
func (s *Service) PutWindow(
	ctx context.Context, by auditlog.Actor, name string, spec WindowSpec, only endpoints.Condition,
) (stored Window, created bool, err error) {
	if err := spec.Check(name); err != nil {
		return Window{}, false, err
	}
	return s.Store.PutWindow(ctx, by, name, spec, only)
}

// TestRule sends a test by the channel of a rule, and returns the result.
func (s *Service) TestRule(ctx context.Context, by auditlog.Actor, name string) (Result, error) {
	r, err := s.GetRule(ctx, by.TenantID, name)
	if err != nil {
		return Result{}, err
	}
	return s.sender.Test(ctx, by, r)
}
