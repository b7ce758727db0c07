package endpoints

import (
	"context"
	"time"

	"rubato/internal/auditlog"
	"rubato/internal/errs"
	"rubato/internal/governor"
)

// Store keeps endpoints. Every method is one transaction, scoped by tenant: another tenant's endpoint is [errs.NotFound].
type Store interface {
	// Create stores the endpoint that create returns for the database's time, with the decision that plans its first run.
	// The error is an [errs.Conflict] where the tenant already has the key. The audit log tells of the act.
	Create(ctx context.Context, act auditlog.Act, create func(now time.Time) (*Endpoint, Recorded, error)) error
	// Get returns one endpoint and the database's time.
	Get(ctx context.Context, tenant [16]byte, id ID) (*Endpoint, time.Time, error)
	// List returns the endpoints that a filter selects, by descending ID, and the database's time.
	List(ctx context.Context, f Filter) ([]*Endpoint, time.Time, error)
	// Change locks an endpoint against starts and finishes, lets change edit it at the database's time, and stores what
	// it left. With a decision, every claim of the endpoint is revoked and the new due time is in force when Change
	// returns; without one the change only records itself. The audit log tells of the act.
	Change(ctx context.Context, act auditlog.Act, id ID, change func(e *Endpoint, now time.Time) (*Recorded, error)) (*Endpoint, error)
	// LastDecision returns the decision that set the due time now in force.
	LastDecision(ctx context.Context, tenant [16]byte, id ID) (Recorded, error)
}

// OneOffKeys keeps the idempotency keys of one-off runs.
type OneOffKeys interface {
	// OneOffKey returns the slot of the one-off run that a key of an endpoint stands for, and the fingerprint of its request; zero: there is none.
	OneOffKey(ctx context.Context, tenant [16]byte, id ID, key string) (slot time.Time, fingerprint []byte, err error)
}

// Filter selects endpoints of one tenant. Zero fields do not filter.
type Filter struct {
	TenantID [16]byte
	Labels   map[string]string // all of them must match
	Key      string
	Name     string // exact

	NamePrefix string // how the name begins

	State  string // active, paused or archived; empty: all but archived
	Before ID     // only endpoints whose ID sorts below: the cursor of a list
	Limit  int    // at most so many; must be positive
}

// Actor is who asks; the ledger keeps the name.
type Actor = auditlog.Actor

// Service is what may be done to endpoints. It is safe for concurrent use.
type Service struct {
	store      Store
	keys       OneOffKeys
	validate   *Validator
	maxWaiting int // one-off runs of an endpoint
}

// NewService returns a service over a store, with targets to judge URLs and headers.
func NewService(store interface {
	Store
	OneOffKeys
}, targets Targets,
) *Service {
	return &Service{store: store, keys: store, validate: NewValidator(targets), maxWaiting: DefaultMaxWaiting}
}

// LimitWaiting makes n the most one-off runs of an endpoint that may wait at once. It is called before the service is used.
func (s *Service) LimitWaiting(n int) { s.maxWaiting = n }

// Check validates a spec without storing it; see [Validator.Check].
func (s *Service) Check(spec Spec) error { return s.validate.Check(ID{}, spec.Normalize()) }

// Register validates and stores a new endpoint, and plans its first run. When it returns, workers may claim it.
func (s *Service) Register(ctx context.Context, by Actor, spec Spec) (*Endpoint, []errs.Field, error) {
	id := NewID()
	spec = spec.Normalize()
	if err := s.validate.For(by.TenantID).Check(id, spec); err != nil {
		return nil, nil, err
	}
	var stored *Endpoint
	var warnings []errs.Field
	err := s.store.Create(ctx, auditlog.Act{By: by, Action: auditlog.Register}, func(now time.Time) (*Endpoint, Recorded, error) {
		stored = &Endpoint{ID: id, TenantID: by.TenantID, Version: 1, CreatedAt: now, UpdatedAt: now, Spec: spec}
		planned, err := stored.Replan(now)
		planned.Cause, planned.Author = CauseRegister, by.Name
		warnings = append(stored.Warnings(now), stored.plannerWarnings(now)...)
		return stored, planned, err
	})
	if err != nil {
		return nil, nil, err
	}
	return stored, warnings, nil
}

// Draft returns a spec as an endpoint that is not stored, of version 0. The error is that of Register, but for what only the store knows.
func (s *Service) Draft(by Actor, spec Spec) (*Endpoint, error) {
	e := &Endpoint{ID: NewID(), TenantID: by.TenantID, Spec: spec.Normalize()}
	if err := s.validate.For(by.TenantID).Check(e.ID, e.Spec); err != nil {
		return nil, err
	}
	return e, nil
}

// Get returns one endpoint, archived or not, and the database's time.
func (s *Service) Get(ctx context.Context, by Actor, id ID) (*Endpoint, time.Time, error) {
	return s.store.Get(ctx, by.TenantID, id)
}

// List returns the endpoints that a filter selects, by descending ID, and the database's time.
func (s *Service) List(ctx context.Context, f Filter) ([]*Endpoint, time.Time, error) {
	return s.store.List(ctx, f)
}

// Edit replaces the spec by what edit makes of the stored one, and replans. The same spec again is no other version. A version other than
// 0 must be the stored one, else the error is an [errs.Precondition].
func (s *Service) Edit(ctx context.Context, by Actor, id ID, version int64, edit func(Spec) (Spec, error)) (*Endpoint, []errs.Field, error) {
	var warnings []errs.Field
	e, err := s.change(ctx, by, id, CauseEdit, func(e *Endpoint, now time.Time) error {
		if err := (Condition{Version: version}).Endpoint(e); err != nil {
			return err
		}
		spec, err := edit(e.Spec)
		if err != nil {
			return err
		}
		spec = spec.Normalize()
		if err := s.validate.For(by.TenantID).Check(id, spec); err != nil {
			return err
		}
		if len(e.Spec.Diff(spec)) > 0 {
			e.Revise(spec, now)
		}
		warnings = append(e.Warnings(now), e.plannerWarnings(now)...)
		return nil
	})
	return e, warnings, err
}

// Revise puts another spec in force. What the target asked for is forgotten where another one is called from now on: that never asked.
func (e *Endpoint) Revise(spec Spec, now time.Time) {
	if spec.origin() != e.Spec.origin() {
		e.State.RetryAfter = time.Time{}
	}
	e.Spec, e.Cron, e.UpdatedAt = spec, nil, now
	e.Version++
}

// Archive takes an endpoint out of service for good; its history stays. A version other than 0 must be the stored one, else the error is an
// [errs.Precondition]; what is archived already stays so without an error, whatever the version.
func (s *Service) Archive(ctx context.Context, by Actor, id ID, version int64) error {
	_, err := s.store.Change(ctx, auditlog.Act{By: by, Action: auditlog.Archive}, id, func(e *Endpoint, now time.Time) (*Recorded, error) {
		if !e.Archived() {
			if err := (Condition{Version: version}).Endpoint(e); err != nil {
				return nil, err
			}
			before := *e
			e.ArchivedAt, e.UpdatedAt = now, now
			e.Version++
			e.account(now, &before, before.liveRun(), nil)
		}
		return nil, nil //nolint:nilnil // An archived endpoint has no next due time, so there is no decision.
	})
	return err
}

// change edits an endpoint in service and replans it, unless a run is live: its finish replans.
func (s *Service) change(ctx context.Context, by Actor, id ID, cause Cause, edit func(*Endpoint, time.Time) error) (*Endpoint, error) {
	return s.store.Change(ctx, auditlog.Act{By: by, Action: auditlog.Action(cause)}, id, func(e *Endpoint, now time.Time) (*Recorded, error) {
		if e.Archived() {
			return nil, errs.New(errs.Conflict, "endpoint_archived", "the endpoint is archived and cannot be changed; register a new one")
		}
		before := *e
		if err := edit(e, now); err != nil {
			return nil, err
		}
		return e.follow(now, &before, cause, by)
	})
}

// follow replans an endpoint that was changed from what it was before, and finds the due times that passed until then. While a run is
// live the change only records itself, and the decision is nil: the finish of the run decides.
func (e *Endpoint) follow(now time.Time, before *Endpoint, cause Cause, by Actor) (*Recorded, error) {
	if run := before.liveRun(); run != nil {
		e.account(now, before, run, nil)
		return nil, nil //nolint:nilnil // No decision is no error.
	}
	if e.State.OneOffs.behind() {
		return nil, nil //nolint:nilnil // Likewise: what is planned, and may be claimed, comes first.
	}
	planned, err := e.keepTrying(now, before)
	if err != nil {
		return nil, err
	}
	e.account(now, before, nil, &planned)
	planned.Cause, planned.Author = cause, by.Name
	return &planned, nil
}

// Explain returns the decision now in force. Of an archived endpoint that is its end: what was planned before holds no more.
func (s *Service) Explain(ctx context.Context, by Actor, id ID) (Recorded, error) {
	e, _, err := s.store.Get(ctx, by.TenantID, id)
	if err != nil {
		return Recorded{}, err
	}
	if e.Archived() {
		return e.end(), nil
	}
	return s.store.LastDecision(ctx, by.TenantID, id)
}

// Preview returns the next n due times of an endpoint, were each of them to succeed at once.
func (s *Service) Preview(ctx context.Context, by Actor, id ID, n int) ([]Planned, error) {
	e, now, err := s.store.Get(ctx, by.TenantID, id)
	if err != nil {
		return nil, err
	}
	return e.Preview(now, n)
}

// indefinitely is what a pause without an end means.
var indefinitely = governor.Indefinite
