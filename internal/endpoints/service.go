package endpoints

import (
	"context"
	"time"

	"rubato/internal/auditlog"
	"rubato/internal/errs"
	"rubato/internal/governor"
)

// Store keeps endpoints. Every method is one transaction, scoped by tenant: the endpoint of another
// tenant is [errs.NotFound].
type Store interface {
	// Create stores the endpoint that create returns for the database's time, and the decision that
	// plans its first run. The error is an [errs.Conflict] if the tenant already has the key. The
	// act is recorded in the audit log.
	Create(ctx context.Context, act auditlog.Act, create func(now time.Time) (*Endpoint, Recorded, error)) error
	// Get returns one endpoint and the database's time.
	Get(ctx context.Context, tenant [16]byte, id ID) (*Endpoint, time.Time, error)
	// List returns the endpoints that a filter selects, by descending ID, and the database's time.
	List(ctx context.Context, f Filter) ([]*Endpoint, time.Time, error)
	// Change locks an endpoint against starts and finishes, calls change with the database's time,
	// and stores the result. If change returns a decision, every claim of the endpoint is revoked,
	// and the new due time is in force when Change returns. Without a decision only the change is
	// stored. The act is recorded in the audit log.
	Change(ctx context.Context, act auditlog.Act, id ID, change func(e *Endpoint, now time.Time) (*Recorded, error)) (*Endpoint, error)
	// LastDecision returns the decision that set the current due time.
	LastDecision(ctx context.Context, tenant [16]byte, id ID) (Recorded, error)
}

// OneOffKeys looks up the idempotency keys of one-off runs.
type OneOffKeys interface {
	// OneOffKey returns the slot of the one-off run that was stored under an idempotency key, and
	// the fingerprint of its request. The slot is zero if the key is unused.
	OneOffKey(ctx context.Context, tenant [16]byte, id ID, key string) (slot time.Time, fingerprint []byte, err error)
}

// Queue reads about one-off runs: their idempotency keys, and the requests of runs to repeat.
type Queue interface {
	OneOffKeys
	Requests
}

// Filter selects endpoints of one tenant. Zero fields do not filter.
type Filter struct {
	TenantID [16]byte
	// Labels must all match.
	Labels map[string]string
	Key    string
	// Name must match exactly.
	Name string

	// NamePrefix matches names that begin with it.
	NamePrefix string

	// Host is host and port of the URL, in the form of [hosts.Key].
	Host string

	// State is active, paused or archived. Empty selects all but archived endpoints.
	State string
	// Before is the cursor of a list: only endpoints whose ID sorts below it are returned.
	Before ID
	// Limit is the maximum number of results. It must be positive.
	Limit int
}

// Actor identifies the caller. The ledger stores its name.
type Actor = auditlog.Actor

// Service implements the operations on endpoints. It is safe for concurrent use.
type Service struct {
	store    Store
	queue    Queue
	noise    NoiseReader
	validate *Validator
	// maxWaiting bounds the queue of one-off runs of an endpoint.
	maxWaiting int
}

// NewService returns a service over a store. targets judges URLs and headers.
func NewService(store interface {
	Store
	Queue
	NoiseReader
}, targets Targets,
) *Service {
	return &Service{
		store:      store,
		queue:      store,
		noise:      store,
		validate:   NewValidator(targets),
		maxWaiting: DefaultMaxWaiting,
	}
}

// LimitWaiting bounds the queue of one-off runs per endpoint to n. Call it before the service is
// used.
func (s *Service) LimitWaiting(n int) { s.maxWaiting = n }

// Check validates a spec without storing it; see [Validator.Check].
func (s *Service) Check(spec Spec) error { return s.validate.Check(ID{}, spec.Normalize()) }

// Register validates and stores a new endpoint, and plans its first run. Workers may claim it when
// Register returns. The fields returned are warnings.
func (s *Service) Register(ctx context.Context, by Actor, spec Spec) (*Endpoint, []errs.Field, error) {
	id := NewID()
	spec = spec.Normalize()
	if err := s.validate.For(by.TenantID).Check(id, spec); err != nil {
		return nil, nil, err
	}
	var stored *Endpoint
	var warnings []errs.Field
	err := s.store.Create(ctx, auditlog.Act{By: by, Action: auditlog.Register}, func(now time.Time) (*Endpoint, Recorded, error) {
		stored = &Endpoint{
			ID:        id,
			TenantID:  by.TenantID,
			Version:   1,
			CreatedAt: now,
			UpdatedAt: now,
			Spec:      spec,
		}
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

// Draft returns a spec as an endpoint of version 0 that is not stored. It refuses the same specs as
// Register, except for checks that need the store.
func (s *Service) Draft(by Actor, spec Spec) (*Endpoint, error) {
	e := &Endpoint{
		ID:       NewID(),
		TenantID: by.TenantID,
		Spec:     spec.Normalize(),
	}
	if err := s.validate.For(by.TenantID).Check(e.ID, e.Spec); err != nil {
		return nil, err
	}
	return e, nil
}

// Get returns one endpoint, also an archived one, and the database's time.
func (s *Service) Get(ctx context.Context, by Actor, id ID) (*Endpoint, time.Time, error) {
	return s.store.Get(ctx, by.TenantID, id)
}

// List returns the endpoints that a filter selects, by descending ID, and the database's time.
func (s *Service) List(ctx context.Context, f Filter) ([]*Endpoint, time.Time, error) {
	return s.store.List(ctx, f)
}

// Edit replaces the spec by the result of edit on the stored one, and replans. An unchanged spec
// creates no new version. If version is neither 0 nor the stored one, the error is an
// [errs.Precondition].
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

// Revise puts another spec in force. If the origin of the URL changes, it drops the wishes of the
// target, because the new one never asked. It also drops wishes that the new spec ignores.
func (e *Endpoint) Revise(spec Spec, now time.Time) {
	if spec.origin() != e.Spec.origin() {
		e.State.RetryAfter, e.State.TargetNext, e.State.FreshUntil = time.Time{}, time.Time{}, time.Time{}
	}
	if !spec.FollowNext {
		e.State.TargetNext = time.Time{}
	}
	if !spec.FollowMaxAge {
		e.State.FreshUntil = time.Time{}
	}
	e.Spec, e.Cron, e.UpdatedAt = spec, nil, now
	e.Version++
}

// Archive takes an endpoint permanently out of service; its history stays. If version is neither 0
// nor the stored one, the error is an [errs.Precondition]. Archiving is idempotent: a second call
// succeeds whatever the version.
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

// change edits an endpoint in service and replans it. During a live run it does not replan, because
// the finish of the run does.
func (s *Service) change(ctx context.Context, by Actor, id ID, cause Cause, edit func(*Endpoint, time.Time) error) (*Endpoint, error) {
	return s.store.Change(ctx, auditlog.Act{By: by, Action: auditlog.Action(cause)}, id, changing(by, cause, edit))
}

// changing returns the change that edits an endpoint in service and replans it.
func changing(by Actor, cause Cause, edit func(*Endpoint, time.Time) error) func(*Endpoint, time.Time) (*Recorded, error) {
	return func(e *Endpoint, now time.Time) (*Recorded, error) {
		if e.Archived() {
			return nil, errs.New(errs.Conflict, "endpoint_archived", "the endpoint is archived and cannot be changed; register a new one")
		}
		before := *e
		if err := edit(e, now); err != nil {
			return nil, err
		}
		return e.replanAfter(now, &before, cause, by)
	}
}

// replanAfter replans an endpoint after a change, and accounts for the due times that passed before
// it. During a live run the decision is nil: the change only stores itself, because the finish of
// the run decides.
func (e *Endpoint) replanAfter(now time.Time, before *Endpoint, cause Cause, by Actor) (*Recorded, error) {
	if run := before.liveRun(); run != nil {
		e.account(now, before, run, nil)
		return nil, nil //nolint:nilnil // No decision is no error.
	}
	if e.State.OneOffs.behind() {
		return nil, nil //nolint:nilnil // Likewise: what is planned, and may be claimed, comes first.
	}
	from := e.State
	planned, err := e.replanKeepingRetry(now, before, cause)
	if err != nil {
		return nil, err
	}
	e.account(now, before, nil, &planned)
	planned.Cause, planned.Author, planned.From = cause, by.Name, &from
	return &planned, nil
}

// Redecide makes the decision of a change again, for a replay. The endpoint is as the change left
// it, and before is the endpoint before the change. No run is live.
func (e *Endpoint) Redecide(now time.Time, before *Endpoint, cause Cause) (Recorded, error) {
	if cause == CauseRegister || cause == CauseReplan {
		return e.Replan(now)
	}
	planned, err := e.replanAfter(now, before, cause, Actor{})
	if err != nil {
		return Recorded{}, err
	}
	return *planned, nil
}

// Explain returns the decision in force. For an archived endpoint it returns the archiving, because
// earlier plans no longer hold.
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

// Preview returns the next n due times of an endpoint on the assumption that each run succeeds at
// once.
func (s *Service) Preview(ctx context.Context, by Actor, id ID, n int) ([]Planned, error) {
	e, now, err := s.store.Get(ctx, by.TenantID, id)
	if err != nil {
		return nil, err
	}
	return e.Preview(now, n)
}

// indefinitely is the end of a pause that only a resume ends.
var indefinitely = governor.Indefinite
