package endpoints

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"rubato/internal/auditlog"
	"rubato/internal/errs"
	"rubato/internal/governor"
)

// DefaultMaxWaiting is the default bound of the queue of one-off runs of an endpoint.
const DefaultMaxWaiting = 1000

// OneOffKeyLife is the lifetime of the idempotency key of a one-off run.
const OneOffKeyLife = 24 * time.Hour

const maxOneOffKey = 255 // characters

// OneOffRequest is the request for a one-off run. Its zero value runs the endpoint as it is
// configured.
type OneOffRequest struct {
	Override Override
	// Deadline bounds from now when an attempt may start; nil: no bound.
	Deadline *time.Duration
	// Priority is empty for that of the endpoint.
	Priority PriorityName
	// Key is an idempotency key: requests with the same key within [OneOffKeyLife] cause one run;
	// nil: none.
	Key *string
	// Force sends the first attempt even if the circuit breaker of its host is open. It counts as a
	// probe of the host.
	Force bool
	// RerunOf is the recorded run that the run repeats; zero: none.
	RerunOf [16]byte
	// Delay puts off the first attempt from now.
	Delay time.Duration
}

// OneOff is a one-off run in the queue or in flight.
type OneOff struct {
	// Slot is the due time of the run, unique for its endpoint.
	Slot time.Time
	// At is the earliest start of the next attempt; Slot for the first.
	At time.Time
	// Attempt is the number of the next attempt, counted from 1.
	Attempt int
	// InfraAttempt counts the runs that infrastructure lost before.
	InfraAttempt int

	Priority Priority
	// Deadline is the latest start of an attempt; zero: none.
	Deadline time.Time
	// Undo means that the item carries out the compensation of a step of a chain.
	Undo bool

	// The following fields are set for a new item only.
	Override Override
	// Force sends the first attempt even if the circuit breaker of its host is open.
	Force bool
	// RerunOf is the recorded run that the item repeats; zero: none.
	RerunOf [16]byte
	// Key is the idempotency key; nil: none.
	Key *string
	// Fingerprint identifies the request of the item.
	Fingerprint []byte
}

// Fingerprint returns a hash of the request. An idempotency key stands for one fingerprint only, so
// that a reused key is detected.
func (r OneOffRequest) Fingerprint() []byte {
	raw, err := json.Marshal(struct {
		Override
		Deadline *time.Duration
		Priority PriorityName
		RerunOf  [16]byte
		Force    bool
	}{r.Override, r.Deadline, r.Priority, r.RerunOf, r.Force})
	if err != nil {
		panic(err) // Texts and numbers always encode.
	}
	sum := sha256.Sum256(raw)
	return sum[:]
}

// OneOffs is the queue of one-off runs of an endpoint, and the effect of the current change or
// finish on it. The store writes that effect in the same transaction as the state.
type OneOffs struct {
	// Next is the head of the queue; nil: the queue is empty.
	Next *OneOff
	// InFlight is the live item; nil: none, or it was withdrawn during its run.
	InFlight *OneOff
	// Waiting is the length of the queue, including Next.
	Waiting int
	// LastSlot is the newest slot of all items; zero: none.
	LastSlot time.Time

	// Added is the item that was enqueued.
	Added *OneOff
	// Retried is the item that was queued for another attempt.
	Retried *OneOff
	// Ended is the item that finished its last attempt.
	Ended *OneOff
	// Withdrawn means that all items were removed.
	Withdrawn bool
}

// first reports whether the next attempt is the first one and was not put off. It takes precedence
// over every other due time.
func (o *OneOff) first() bool {
	return o != nil && o.Attempt == 1 && o.InfraAttempt == 0 && !o.At.After(o.Slot)
}

// wholeDelay returns a delay in whole milliseconds, as instants are stored.
func wholeDelay(d time.Duration) time.Duration { return d.Truncate(time.Millisecond) }

// add enqueues an item.
func (q *OneOffs) add(item OneOff, now time.Time) {
	q.Added, q.LastSlot = &item, item.Slot
	q.Waiting++
	q.Next = firstOf(q.Next, &item, now)
}

// NextSlot returns the slot of an item that is enqueued now. Slots are unique per millisecond.
func (q *OneOffs) NextSlot(now time.Time) time.Time {
	return laterOf(now, q.LastSlot.Add(time.Millisecond))
}

// behind reports whether the new item waits behind a planned first attempt.
func (q *OneOffs) behind() bool { return q.Added != nil && q.Next != q.Added && q.Next.first() }

// withdraw empties the queue. A run in flight continues, and gets no further attempt.
func (q *OneOffs) withdraw() {
	*q = OneOffs{Withdrawn: q.Withdrawn || q.Waiting > 0 || q.InFlight != nil}
}

// firstOf returns the one of two items that runs first, in the order of the SQL query
// OneOffGetMany: earlier start, then higher priority, then older slot. Nil is no item.
func firstOf(a, b *OneOff, now time.Time) *OneOff {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	order := cmp.Or(laterOf(a.At, now).Compare(laterOf(b.At, now)), cmp.Compare(b.Priority, a.Priority), a.Slot.Compare(b.Slot))
	if order > 0 {
		return b
	}
	return a
}

// Queued is the result of a request for a one-off run.
type Queued struct {
	// Slot is the due time of the run.
	Slot time.Time
	// Waiting is the length of the queue including this run. It is unknown for a repeated request.
	Waiting int
	// Repeated means that an earlier request with the same key created the run.
	Repeated bool
}

// RunNow enqueues a one-off run, regardless of the governor and of a pause. The run is stored when
// RunNow returns, and starts as soon as the endpoint is idle. The error is an [errs.Exhausted] if
// the queue is full, and an [errs.Conflict] if the key was used for a different request.
func (s *Service) RunNow(ctx context.Context, by Actor, id ID, r OneOffRequest) (Queued, error) {
	for range keyTries {
		if r.Key != nil {
			found, known, err := s.keyed(ctx, by.TenantID, id, r)
			if err != nil || known {
				return found, err
			}
		}
		queued, err := s.enqueue(ctx, by, id, r)
		if taken, is := errors.AsType[*errs.Error](err); !is || taken.Reason != keyTaken {
			return queued, err
		}
	}
	return Queued{}, errs.New(errs.Conflict, "idempotency_key_in_use", "another request with this idempotencyKey is being carried out; try again")
}

const (
	keyTries = 3
	keyTaken = "one_off_key_taken"
)

// ErrOneOffKeyTaken returns the error of [Store.Change] for a key that already names another run.
// Nothing was stored then.
func ErrOneOffKeyTaken() error {
	return errs.New(errs.Conflict, keyTaken, "the idempotencyKey names another run")
}

// keyed returns the run that was stored under the idempotency key of a request.
func (s *Service) keyed(ctx context.Context, tenant [16]byte, id ID, r OneOffRequest) (q Queued, known bool, err error) {
	slot, fingerprint, err := s.queue.OneOffKey(ctx, tenant, id, *r.Key)
	switch {
	case err != nil || slot.IsZero():
		return Queued{}, false, err
	case string(fingerprint) != string(r.Fingerprint()):
		return Queued{}, false, errs.New(errs.Conflict, "idempotency_key_reused",
			"the idempotencyKey was used within the last 24 hours for a run with another body, headers, query, deadline, priority or force; use another key, or repeat the request as it was")
	default:
		return Queued{Slot: slot, Repeated: true}, true, nil
	}
}

func (s *Service) enqueue(ctx context.Context, by Actor, id ID, r OneOffRequest) (Queued, error) {
	change, queued := s.OneOffChange(by, r)
	_, err := s.store.Change(ctx, auditlog.Act{By: by, Action: auditlog.RunNow}, id, change)
	return *queued, err
}

// OneOffChange returns the change that enqueues a one-off run, for a caller that makes it in a
// larger transaction, and its result, which is set when the change has succeeded. The act of the
// change is [auditlog.RunNow].
func (s *Service) OneOffChange(by Actor, r OneOffRequest) (change func(*Endpoint, time.Time) (*Recorded, error), queued *Queued) {
	queued = new(Queued)
	return changing(by, CauseRunNow, func(e *Endpoint, now time.Time) error {
		item, err := s.oneOff(e, now, r)
		if err != nil {
			return err
		}
		q := &e.State.OneOffs
		if q.Waiting >= s.maxWaiting {
			return errs.New(errs.Exhausted, "too_many_waiting_runs", fmt.Sprintf(
				"%d one-off runs of the endpoint wait already, which is the most; ask again when some have run, or pause the endpoint to withdraw them", q.Waiting))
		}
		q.add(item, now)
		*queued = Queued{Slot: item.Slot, Waiting: q.Waiting}
		return nil
	}), queued
}

// oneOff returns the queue item of a request, or an error that names its bad fields.
func (s *Service) oneOff(e *Endpoint, now time.Time, r OneOffRequest) (OneOff, error) {
	item := OneOff{
		Slot:        e.State.OneOffs.NextSlot(now),
		Attempt:     1,
		Override:    r.Override,
		Force:       r.Force,
		RerunOf:     r.RerunOf,
		Key:         r.Key,
		Fingerprint: r.Fingerprint(),
	}
	item.At = item.Slot.Add(wholeDelay(r.Delay))
	bad := r.check()
	item.Priority, _ = cmp.Or(r.Priority, e.Spec.Priority).Rank()
	if r.Deadline != nil {
		item.Deadline = wholeMilliseconds(now.Add(*r.Deadline))
	}
	if !r.Override.Empty() {
		bad = append(bad, r.Override.faults(s.validate.For(e.TenantID), e)...)
	}
	return item, errs.InvalidFields(bad)
}

// faults returns the faults of an endpoint's configuration with the override applied, except for
// those that it has without the override, because they are no faults of the request. A field that
// the override leaves alone can get a fault too: followRedirects, if the new body holds a secret,
// and the body, if the new Content-Type changes the escaping of its templates.
func (o Override) faults(v *Validator, e *Endpoint) (bad []errs.Field) {
	all := errs.FieldsOf(v.Check(e.ID, o.Apply(e.Spec)))
	if len(all) == 0 {
		return nil
	}
	type fault struct{ field, code string }
	own := map[fault]bool{}
	for _, f := range errs.FieldsOf(v.Check(e.ID, e.Spec)) {
		own[fault{f.Field, f.Code}] = true
	}
	for _, f := range all {
		if o.changes(f.Field) || !own[fault{f.Field, f.Code}] {
			bad = append(bad, f)
		}
	}
	return bad
}

// Check returns the faults of a request that do not depend on its endpoint, as an [errs.Invalid].
func (r OneOffRequest) Check() error { return errs.InvalidFields(r.check()) }

func (r OneOffRequest) check() (bad []errs.Field) {
	if _, known := r.Priority.Rank(); r.Priority != "" && !known {
		bad = append(bad, errs.Field{
			Field:   "priority",
			Code:    "invalid_value",
			Message: "must be low, normal, high or critical",
		})
	}
	if r.Deadline != nil && (*r.Deadline < time.Millisecond || *r.Deadline > maxSpan) {
		bad = append(bad, errs.Field{
			Field:   "deadlineMs",
			Code:    "out_of_range",
			Message: "must be 1 to 31622400000 (366 days); leave it out for a run that may wait for any time",
		})
	}
	if key := r.Key; key != nil && !IsKeyText(*key) {
		bad = append(bad, errs.Field{
			Field:   "idempotencyKey",
			Code:    "invalid_value",
			Message: "must hold 1 to 255 characters without control characters",
		})
	}
	return bad
}

// planOneOff plans the head of the queue if it comes before the decided due time. A first attempt
// always does, because a requested run does not wait for the schedule.
func (e *Endpoint) planOneOff(decided *Recorded) {
	next := e.State.OneOffs.Next
	if next == nil || !next.first() && !next.At.Before(decided.Due.At) {
		return
	}
	steps := []governor.Step{{
		Rule: RuleManual,
		At:   next.At,
		Why:  "a one-off run was asked for",
	}}
	due := Due{
		At:           next.At,
		Slot:         next.Slot,
		Attempt:      next.Attempt,
		InfraAttempt: next.InfraAttempt,
		Source:       governor.SourceManual,
	}
	switch {
	case next.InfraAttempt > 0:
		steps = append(steps, infraStep(due, ""))
	case next.Attempt > 1:
		steps = append(steps, e.ruledFor(next).retryStep(due))
	}
	decided.Due = due
	decided.Decision = governor.Decision{
		At:     next.At,
		Slot:   next.Slot,
		Source: governor.SourceManual,
		Steps:  steps,
	}
	e.State.Due = decided.Due
}

// endOneOff finishes a one-off run. It enqueues another attempt if the retry policy or the budget
// of losses allows one; otherwise the item is done. It reports whether there is another attempt.
func (e *Endpoint) endOneOff(now time.Time, run Finished) (again bool) {
	q := &e.State.OneOffs
	own := q.InFlight
	q.InFlight = nil
	if own == nil { // Withdrawn during its run.
		return false
	}
	ruled := e.ruledFor(own)
	due, again := ruled.lossRetry(now, run)
	if !again {
		due, again = ruled.attempt(now, run)
	}
	if !again {
		q.Ended = own
		return false
	}
	item := *own
	item.At, item.Attempt, item.InfraAttempt = due.At, due.Attempt, due.InfraAttempt
	q.Retried = &item
	q.Waiting++
	q.Next = firstOf(q.Next, &item, now)
	return true
}

// UndoAttempts is the least number of attempts of a compensation.
const UndoAttempts = 5

// ruledFor returns the endpoint with the retry rules of a one-off item. The request of a
// compensation may be repeated, because its Idempotency-Key is the same in every attempt.
func (e *Endpoint) ruledFor(item *OneOff) *Endpoint {
	if !item.Undo {
		return e
	}
	ruled := *e
	ruled.Spec.Retry.MaxAttempts = max(e.Spec.Retry.MaxAttempts, UndoAttempts)
	ruled.Spec.Idempotent = true
	return &ruled
}

// IsKeyText reports whether a text can be an idempotency key: 1 to 255 characters without control
// characters.
func IsKeyText(key string) bool { return key != "" && len([]rune(key)) <= maxOneOffKey && isText(key) }
