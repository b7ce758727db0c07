package endpoints

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"rubato/internal/errs"
	"rubato/internal/governor"
)

// DefaultMaxWaiting is how many one-off runs of an endpoint may wait at once unless the operator says otherwise.
const DefaultMaxWaiting = 1000

// OneOffKeyLife is how long an idempotency key of a one-off run names it.
const OneOffKeyLife = 24 * time.Hour

const maxOneOffKey = 255 // characters

// Priority orders the one-off runs of an endpoint that wait: higher first, and then the older.
type Priority int16

// The priorities.
const (
	Low Priority = iota - 1
	Normal
	High
	Critical
)

var priorities = map[string]Priority{"low": Low, "normal": Normal, "high": High, "critical": Critical}

// ParsePriority returns the priority of a name; the empty name is normal.
func ParsePriority(name string) (p Priority, known bool) {
	if name == "" {
		return Normal, true
	}
	p, known = priorities[name]
	return p, known
}

// OneOffRequest is a one-off run as it is asked for. Its zero value is a run of the endpoint as it is configured.
type OneOffRequest struct {
	Override Override
	Deadline *time.Duration // from now until when an attempt may start; nil: no end
	Priority string         // empty: normal
	Key      *string        // two requests with the same key within [OneOffKeyLife] are one run; nil: none
}

// Override is what the request of a one-off run has in place of the endpoint's.
type Override struct {
	Body    *string           `json:"body,omitempty"`    // nil: the endpoint's
	Headers map[string]string `json:"headers,omitempty"` // added to the endpoint's, or in place of those with the same name
	Query   map[string]string `json:"query,omitempty"`   // likewise
}

// Empty reports whether the override changes nothing.
func (o Override) Empty() bool { return o.Body == nil && len(o.Headers) == 0 && len(o.Query) == 0 }

// Apply returns the spec of a run with the override. The spec given is not changed.
func (o Override) Apply(s Spec) Spec {
	if o.Body != nil {
		s.Body = *o.Body
	}
	s.Headers, s.Query = maps.Clone(s.Headers), maps.Clone(s.Query)
	if s.Headers == nil {
		s.Headers = map[string]string{}
	}
	for name, value := range o.Headers {
		delete(s.Headers, s.headerNamed(name))
		s.Headers[name] = value
	}
	if s.Query == nil {
		s.Query = map[string]string{}
	}
	maps.Copy(s.Query, o.Query)
	return s
}

// changes reports whether a field of a spec, by its path, comes from the override.
func (o Override) changes(field string) bool {
	if field == "body" {
		return o.Body != nil
	}
	for prefix, given := range map[string]map[string]string{"headers": o.Headers, "query": o.Query} {
		name, one := strings.CutPrefix(field, prefix+".")
		if _, there := given[name]; one && there || field == prefix && len(given) > 0 {
			return true
		}
	}
	return false
}

// References returns the secrets that the override names for the run of a spec.
func (o Override) References(s Spec) []Reference {
	merged := o.Apply(s)
	return slices.DeleteFunc(merged.References(), func(r Reference) bool { return !o.changes(r.Field) })
}

// OneOff is a one-off run that waits, or is in flight.
type OneOff struct {
	Slot    time.Time // the due time that the run stands for, unique for its endpoint
	At      time.Time // when the next attempt may start: Slot for the first
	Attempt int       // the next one, counted from 1
	// InfraAttempt counts the runs that infrastructure lost before.
	InfraAttempt int

	Priority Priority
	Deadline time.Time // no attempt starts after it; zero: no end

	// Known of a new item only.
	Override    Override
	Key         *string // nil: none
	Fingerprint []byte  // of what was asked for
}

// Fingerprint identifies what was asked for: a key stands for one run, and for no other.
func (r OneOffRequest) Fingerprint() []byte {
	raw, err := json.Marshal(struct {
		Override
		Deadline *time.Duration
		Priority string
	}{r.Override, r.Deadline, r.Priority})
	if err != nil {
		panic(err) // Texts and numbers always encode.
	}
	sum := sha256.Sum256(raw)
	return sum[:]
}

// OneOffs is where the one-off runs of an endpoint stand, and what the change or finish at hand did to them: whoever stores what it left
// also stores that, in the same transaction.
type OneOffs struct {
	Next     *OneOff   // whose turn is next; nil: none waits
	InFlight *OneOff   // the one in flight; nil: none, or it was withdrawn during its run
	Waiting  int       // how many wait, Next among them
	LastSlot time.Time // the newest slot of all; zero: there is none

	Added     *OneOff // is new
	Retried   *OneOff // waits for another attempt
	Ended     *OneOff // has had its last attempt
	Withdrawn bool    // all of them are taken back
}

// first reports whether the first attempt of an item waits, which goes before everything else.
func (o *OneOff) first() bool { return o != nil && o.Attempt == 1 && o.InfraAttempt == 0 }

// add queues an item.
func (q *OneOffs) add(item OneOff, now time.Time) {
	q.Added, q.LastSlot = &item, item.Slot
	q.Waiting++
	q.Next = firstOf(q.Next, &item, now)
}

// NextSlot returns the slot of an item that is added now: one millisecond has one item.
func (q *OneOffs) NextSlot(now time.Time) time.Time {
	return laterOf(now, q.LastSlot.Add(time.Millisecond))
}

// behind reports whether an item was added that waits behind the one whose first attempt is planned.
func (q *OneOffs) behind() bool { return q.Added != nil && q.Next != q.Added && q.Next.first() }

// withdraw takes back every item. The run that is in flight goes on, and is its last attempt.
func (q *OneOffs) withdraw() {
	*q = OneOffs{Withdrawn: q.Withdrawn || q.Waiting > 0 || q.InFlight != nil}
}

// firstOf returns the item of two whose turn comes first, by the order of OneOffGetMany: the earlier instant at which it may start, then the
// higher priority, then the older slot. Nil is none.
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

// Queued is what came of the request for a one-off run.
type Queued struct {
	Slot     time.Time // the due time of the run
	Waiting  int       // how many one-off runs of the endpoint wait, this one among them; not known of one that was asked for before
	Repeated bool      // an earlier request with the same key asked for it
}

// RunNow queues a one-off run, whatever governor and pause say: the endpoint runs it as soon as it runs nothing else. Where it returns,
// the run is stored. The error is an [errs.Exhausted] where as many wait as may, and an [errs.Conflict] where the key stands for another request.
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

// ErrOneOffKeyTaken is what [Store.Change] returns where the key of a new one-off run stands for another run: nothing was stored.
func ErrOneOffKeyTaken() error {
	return errs.New(errs.Conflict, keyTaken, "the idempotencyKey names another run")
}

// keyed returns the run that the key of a request stands for.
func (s *Service) keyed(ctx context.Context, tenant [16]byte, id ID, r OneOffRequest) (q Queued, known bool, err error) {
	slot, fingerprint, err := s.keys.OneOffKey(ctx, tenant, id, *r.Key)
	switch {
	case err != nil || slot.IsZero():
		return Queued{}, false, err
	case string(fingerprint) != string(r.Fingerprint()):
		return Queued{}, false, errs.New(errs.Conflict, "idempotency_key_reused",
			"the idempotencyKey was used within the last 24 hours for a run with another body, headers, query, deadline or priority; use another key, or repeat the request as it was")
	default:
		return Queued{Slot: slot, Repeated: true}, true, nil
	}
}

func (s *Service) enqueue(ctx context.Context, by Actor, id ID, r OneOffRequest) (queued Queued, err error) {
	_, err = s.change(ctx, by, id, CauseRunNow, func(e *Endpoint, now time.Time) error {
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
		queued = Queued{Slot: item.Slot, Waiting: q.Waiting}
		return nil
	})
	return queued, err
}

// oneOff returns the item of a request, or what is wrong with the request.
func (s *Service) oneOff(e *Endpoint, now time.Time, r OneOffRequest) (OneOff, error) {
	item := OneOff{Slot: e.State.OneOffs.NextSlot(now), Attempt: 1, Override: r.Override, Key: r.Key, Fingerprint: r.Fingerprint()}
	item.At = item.Slot
	bad := r.check()
	item.Priority, _ = ParsePriority(r.Priority)
	if r.Deadline != nil {
		item.Deadline = wholeMilliseconds(now.Add(*r.Deadline))
	}
	if !r.Override.Empty() {
		err := s.validate.For(e.TenantID).Check(e.ID, r.Override.Apply(e.Spec))
		for _, f := range errs.FieldsOf(err) {
			if r.Override.changes(f.Field) { // What is wrong with the endpoint itself is not this request's.
				bad = append(bad, f)
			}
		}
	}
	return item, errs.InvalidFields(bad)
}

// Check returns what is wrong with a request whatever its endpoint is, as an [errs.Invalid].
func (r OneOffRequest) Check() error { return errs.InvalidFields(r.check()) }

func (r OneOffRequest) check() (bad []errs.Field) {
	if _, known := ParsePriority(r.Priority); !known {
		bad = append(bad, errs.Field{Field: "priority", Code: "invalid_value", Message: "must be low, normal, high or critical"})
	}
	if r.Deadline != nil && (*r.Deadline < time.Millisecond || *r.Deadline > maxSpan) {
		bad = append(bad, errs.Field{Field: "deadlineMs", Code: "out_of_range", Message: "must be 1 to 31622400000 (366 days); leave it out for a run that may wait for any time"})
	}
	if key := r.Key; key != nil && (*key == "" || len([]rune(*key)) > maxOneOffKey || !isText(*key)) {
		bad = append(bad, errs.Field{Field: "idempotencyKey", Code: "invalid_value", Message: "must hold 1 to 255 characters without control characters"})
	}
	return bad
}

// planOneOff plans the one-off run whose turn is next, if it comes before what was decided. A first attempt always does: whoever asks for a
// run now does not wait for a schedule.
func (e *Endpoint) planOneOff(decided *Recorded) {
	next := e.State.OneOffs.Next
	if next == nil || !next.first() && !next.At.Before(decided.Due.At) {
		return
	}
	steps := []governor.Step{{Rule: RuleManual, At: next.At, Why: "a one-off run was asked for"}}
	due := Due{At: next.At, Slot: next.Slot, Attempt: next.Attempt, InfraAttempt: next.InfraAttempt, Source: governor.SourceManual}
	switch {
	case next.InfraAttempt > 0:
		steps = append(steps, infraStep(due, ""))
	case next.Attempt > 1:
		steps = append(steps, e.retryStep(due))
	}
	decided.Due = due
	decided.Decision = governor.Decision{At: next.At, Slot: next.Slot, Source: governor.SourceManual, Steps: steps}
	e.State.Due = decided.Due
}

// endOneOff takes the end of a one-off run into the queue: the item waits for another attempt where the retry policy or the
// budget of losses allows one, else it is done. It reports whether there is another attempt.
func (e *Endpoint) endOneOff(now time.Time, run Finished) (again bool) {
	q := &e.State.OneOffs
	own := q.InFlight
	q.InFlight = nil
	if own == nil { // Withdrawn during its run.
		return false
	}
	due, again := e.afterLoss(now, run)
	if !again {
		due, again = e.attempt(now, run)
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
