package calls

import (
	"context"
	"fmt"
	"time"

	"rubato/internal/auditlog"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/runs"
)

const (
	// MaxOpen bounds the calls of a tenant that have not ended.
	MaxOpen = 100_000
	// maxWait bounds delays and deadlines, as for one-off runs.
	maxWait = 366 * 24 * time.Hour
)

// Request asks for a call.
type Request struct {
	Spec endpoints.Spec
	// Delay is the earliest start from now; nil: none.
	Delay *time.Duration
	// NotBefore is the earliest start; zero: now. Not with Delay.
	NotBefore time.Time
	// Deadline is the latest start of an attempt, counted from now; nil: none.
	Deadline *time.Duration
	// Callback receives the result; nil: none.
	Callback *string
	// Key is the deduplication key; nil: none.
	Key *string
}

// Filter selects calls of one tenant, newest first. Zero fields do not filter.
type Filter struct {
	TenantID [16]byte
	Open     bool // calls that have not ended
	Before   ID   // IDs below it: the cursor of a list
	Limit    int  // maximum number of results; must be positive
}

// Store keeps calls. Every method is scoped by tenant: another tenant's call is [errs.NotFound].
type Store interface {
	// Send stores a call and returns it, or the call that has its deduplication key. Place sets the
	// instants of the call from the database's time.
	Send(ctx context.Context, c *Call, place func(c *Call, now time.Time)) (stored *Call, err error)
	Get(ctx context.Context, tenant [16]byte, id ID) (*Call, error)
	List(ctx context.Context, f Filter) ([]*Call, error)
	// Cancel ends a call that waits. The error is an [errs.Conflict] if it runs or has ended.
	Cancel(ctx context.Context, by auditlog.Actor, id ID) error
}

// Service implements the operations on calls. It is safe for concurrent use.
type Service struct {
	store    Store
	validate *endpoints.Validator
}

// NewService returns a service over a store.
func NewService(store Store, targets endpoints.Targets) *Service {
	return &Service{store: store, validate: endpoints.NewValidator(targets)}
}

// Send stores a call. first is false if its deduplication key already stands for a call, which is
// returned then. The error is an [errs.Invalid] that names every bad field.
func (s *Service) Send(ctx context.Context, by auditlog.Actor, r Request) (c *Call, first bool, err error) {
	if err := s.Check(by.TenantID, r); err != nil {
		return nil, false, err
	}
	return s.send(ctx, r.call(by), r)
}

// call returns the call of a request, without its instants.
func (r Request) call(by auditlog.Actor) *Call {
	c := &Call{
		ID:       NewID(),
		TenantID: by.TenantID,
		Author:   by.Name,
		Spec:     r.spec(),
		State:    runs.Waiting,
	}
	if r.Callback != nil {
		c.Callback = *r.Callback
	}
	if r.Key != nil {
		c.Key = *r.Key
	}
	return c
}

func (s *Service) send(ctx context.Context, c *Call, r Request) (sent *Call, first bool, err error) {
	stored, err := s.store.Send(ctx, c, r.place)
	if err != nil {
		return nil, false, err
	}
	return stored, stored.ID == c.ID, nil
}

// spec returns the stored form of the spec. A call has neither schedule nor planner.
func (r Request) spec() endpoints.Spec {
	s := r.Spec
	s.MaxExecutionTime = max(s.MaxExecutionTime, s.Timeout)
	return s.Normalize()
}

// place sets the instants of a call.
func (r Request) place(c *Call, now time.Time) {
	c.CreatedAt, c.NotBefore = now, now
	switch {
	case r.Delay != nil:
		c.NotBefore = now.Add(*r.Delay)
	case r.NotBefore.After(now):
		c.NotBefore = r.NotBefore.UTC()
	}
	c.NotBefore = c.NotBefore.Truncate(time.Millisecond)
	if r.Deadline != nil {
		c.Deadline = now.Add(*r.Deadline).Truncate(time.Millisecond)
	}
}

// Check returns the faults of a request as an [errs.Invalid], or nil.
func (s *Service) Check(tenant [16]byte, r Request) error {
	validate := s.validate.For(tenant)
	bad := validate.CheckCall(r.spec())
	refuse := func(field, code, message string) {
		bad = append(bad, errs.Field{
			Field:   field,
			Code:    code,
			Message: message,
		})
	}
	r.checkTimes(refuse)
	if r.Callback != nil {
		answer := Defaults()
		answer.URL = *r.Callback
		for _, f := range validate.CheckCall(answer.Normalize()) {
			refuse("callbackUrl", f.Code, f.Message)
		}
	}
	if r.Key != nil && !endpoints.IsKeyText(*r.Key) {
		refuse("deduplicationKey", "invalid_value", "must hold 1 to 255 characters without control characters")
	}
	return errs.InvalidFields(bad)
}

// checkTimes refuses times that are out of range, or that contradict each other.
func (r *Request) checkTimes(refuse func(field, code, message string)) {
	if r.Delay != nil && (*r.Delay < 0 || *r.Delay > maxWait) {
		refuse("delayMs", "out_of_range", "must be 0 to 31622400000 (366 days); leave it out to send at once")
	}
	if r.Delay != nil && !r.NotBefore.IsZero() {
		refuse("notBefore", "ambiguous", "give delayMs or notBefore, not both")
	}
	if !r.NotBefore.IsZero() && !endpoints.Schedulable(r.NotBefore) {
		refuse("notBefore", "out_of_range", endpoints.SchedulableForm)
	}
	if r.Deadline != nil && (*r.Deadline < time.Millisecond || *r.Deadline > maxWait) {
		refuse("deadlineMs", "out_of_range", "must be 1 to 31622400000 (366 days); leave it out for a call that may wait for any time")
	}
}

// Get returns a call with its state.
func (s *Service) Get(ctx context.Context, by auditlog.Actor, id ID) (*Call, error) {
	return s.store.Get(ctx, by.TenantID, id)
}

// List returns the calls that a filter selects, newest first.
func (s *Service) List(ctx context.Context, f Filter) ([]*Call, error) { return s.store.List(ctx, f) }

// Cancel ends a call that waits.
func (s *Service) Cancel(ctx context.Context, by auditlog.Actor, id ID) error {
	return s.store.Cancel(ctx, by, id)
}

// ErrTooMany returns the error of a call beyond [MaxOpen].
func ErrTooMany() error {
	return errs.New(errs.Exhausted, "too_many_open_calls", fmt.Sprintf("%d calls have not ended yet, which is the most; send again when some have", MaxOpen))
}
