package deadletters

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rubato/internal/auditlog"
	"rubato/internal/calls"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/secrets"
)

// Filter selects dead letters of one tenant, newest due time first. Zero fields do not filter.
type Filter struct {
	TenantID   [16]byte
	EndpointID endpoints.ID
	State      State
	Reason     string // reason code
	Before     ID     // IDs below it: the cursor of a list
	After      ID     // IDs above it, oldest due time first; not with Before
	Limit      int    // maximum number of results; must be positive
}

// Change enqueues the replay of a dead letter on its locked endpoint.
type Change func(*endpoints.Endpoint, time.Time) (*endpoints.Recorded, error)

// Store keeps dead letters. Every method is one transaction, scoped by tenant: another tenant's
// dead letter is [errs.NotFound].
type Store interface {
	List(ctx context.Context, f Filter) ([]Letter, error)
	Get(ctx context.Context, tenant [16]byte, id ID) (Letter, error)
	// Replay marks an open dead letter as replayed and changes its endpoint in the same
	// transaction. If it is no longer open, nothing changes and the error is an [errs.Conflict].
	Replay(ctx context.Context, by auditlog.Actor, l Letter, change Change) error
	// ReplayCall marks an open dead letter of a call as replayed and inserts the call that replays
	// it in the same transaction, like Replay. again makes that call from the one that was given
	// up, or from nil if it is no longer kept.
	ReplayCall(ctx context.Context, by auditlog.Actor, l Letter, again func(was *calls.Call, now time.Time) (*calls.Call, error)) (*calls.Call, error)
	// Discard marks an open dead letter as discarded. If it is no longer open, the error is an
	// [errs.Conflict].
	Discard(ctx context.Context, by auditlog.Actor, id ID, reason string) (Letter, error)
}

// Service implements the operations on dead letters. It is safe for concurrent use.
type Service struct {
	store     Store
	endpoints *endpoints.Service
	calls     *calls.Service
	keyring   *secrets.Keyring
}

// NewService returns a service over a store.
func NewService(store Store, targets *endpoints.Service, single *calls.Service, keyring *secrets.Keyring) *Service {
	return &Service{
		store:     store,
		endpoints: targets,
		calls:     single,
		keyring:   keyring,
	}
}

// List returns the dead letters that a filter selects, newest due time first.
func (s *Service) List(ctx context.Context, f Filter) ([]Letter, error) { return s.store.List(ctx, f) }

// Get returns a dead letter with its request; nil if the program lacks the key of the request.
func (s *Service) Get(ctx context.Context, by auditlog.Actor, id ID) (Letter, *Content, error) {
	l, err := s.store.Get(ctx, by.TenantID, id)
	if err != nil {
		return l, nil, err
	}
	content, err := l.Open(s.keyring)
	if errors.Is(err, secrets.ErrUnreadable) {
		return l, nil, nil
	}
	return l, &content, err
}

// Replay is the request to send a dead letter again.
type Replay struct {
	// NewKey sends a new Idempotency-Key. Otherwise the target gets that of the run that was given
	// up, so that it can refuse to do the same twice.
	NewKey bool
	// Delay is the earliest start from now.
	Delay time.Duration
}

// Replay enqueues a one-off run with the request of an open dead letter, or sends its call again as
// a call of its own. Of many replays at once one does so; the others are an [errs.Conflict]. A
// request that is no longer allowed is an [errs.Invalid], and the dead letter stays open. The
// returned dead letter names its replay.
func (s *Service) Replay(ctx context.Context, by auditlog.Actor, id ID, r Replay) (Letter, endpoints.Queued, error) {
	l, err := s.store.Get(ctx, by.TenantID, id)
	if err != nil {
		return l, endpoints.Queued{}, err
	}
	queued, err := s.replay(ctx, by, &l, r)
	return l, queued, err
}

func (s *Service) replay(ctx context.Context, by auditlog.Actor, l *Letter, r Replay) (endpoints.Queued, error) {
	content, err := l.Open(s.keyring)
	if errors.Is(err, secrets.ErrUnreadable) {
		return endpoints.Queued{}, errs.Wrap(err, errs.Unavailable, "the request of the dead letter cannot be read: this server lacks the key that sealed it; its operator must add the key to RUBATO_SECRET_KEYS")
	}
	if err != nil {
		return endpoints.Queued{}, err
	}
	if r.NewKey {
		content.Key = ""
	}
	if content.Call {
		return s.replayCall(ctx, by, l, content, r.Delay)
	}
	change, queued := s.endpoints.OneOffChange(by, endpoints.OneOffRequest{
		Override: endpoints.Override{
			Whole:   &content.Request,
			SentKey: content.Key,
			DueFor:  content.DueFor,
		},
		RerunOf: l.ID,
		Delay:   r.Delay,
	})
	err = s.store.Replay(ctx, by, *l, change)
	l.ReplaySlot = queued.Slot
	return *queued, err
}

// replayCall sends the call of a dead letter again. Its timeouts, retries and rules are those of
// the call that was given up, and the defaults if that is no longer kept. It has no deadline.
func (s *Service) replayCall(ctx context.Context, by auditlog.Actor, l *Letter, content Content, delay time.Duration) (endpoints.Queued, error) {
	sent, err := s.store.ReplayCall(ctx, by, *l, func(was *calls.Call, now time.Time) (*calls.Call, error) {
		spec, callback := calls.Defaults(), ""
		if was != nil {
			spec, callback = was.Spec, was.Callback
		}
		spec = endpoints.Override{Whole: &content.Request}.Apply(spec)
		if err := s.calls.Check(by.TenantID, calls.Request{Spec: spec}); err != nil {
			return nil, err
		}
		return &calls.Call{
			ID:        calls.NewID(),
			TenantID:  by.TenantID,
			CreatedAt: now,
			Author:    by.Name,
			NotBefore: now.Add(delay).Truncate(time.Millisecond),
			Spec:      spec,
			Callback:  callback,
			SentKey:   content.Key,
			DueFor:    content.DueFor,
			RerunOf:   l.ID,
		}, nil
	})
	if err != nil {
		return endpoints.Queued{}, err
	}
	l.ReplayCall, l.ReplaySlot = sent.ID, sent.NotBefore
	return endpoints.Queued{Slot: sent.NotBefore, Waiting: 1}, nil
}

// Discard marks an open dead letter as handled without a run, for a reason.
func (s *Service) Discard(ctx context.Context, by auditlog.Actor, id ID, reason string) (Letter, error) {
	if err := CheckReason(reason); err != nil {
		return Letter{}, err
	}
	return s.store.Discard(ctx, by, id, reason)
}

// CheckReason returns the faults of the reason of a discard, as an [errs.Invalid].
func CheckReason(reason string) error {
	if reason == "" {
		return errs.InvalidFields([]errs.Field{{
			Field:   "reason",
			Code:    "required",
			Message: "must say why the run is not sent again",
		}})
	}
	return endpoints.CheckReason(reason)
}

// Handled returns the error of handling a dead letter that is no longer open.
func (l Letter) Handled() error {
	how := string(l.State) + " by " + l.HandledBy
	if l.State == Replayed {
		how += " as run " + l.ReplayID().String()
	}
	return errs.New(errs.Conflict, "dead_letter_handled", fmt.Sprintf("dead letter %s is not open: it was %s", l.ID, how))
}
