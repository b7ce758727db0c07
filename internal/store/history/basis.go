package history

import (
	"encoding/json"
	"fmt"
	"time"

	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/store/pg"
	"rubato/internal/tempo"
)

// Basis is the input of a decision that follows neither from its row nor from the decisions before
// it. With the basis of each decision the ledger can be replayed.
type Basis struct {
	// State is the state that the decision was made from; nil if it is the one that the decision
	// before left.
	State *endpoints.State
	// Shared is the shared budget that a worker found; nil: none.
	Shared *endpoints.SharedBudget
	// Sent reports that a byte of a failed request may have reached the target.
	Sent bool
	// LookAgain asks for another look soon.
	LookAgain bool
	// RetryAfter, TargetNext and FreshUntil are the wishes of the answer; zero: none.
	RetryAfter, TargetNext, FreshUntil time.Time
	// OpenUntil is when the breaker of the host lets the endpoint try again; zero: it held nothing
	// back.
	OpenUntil time.Time
}

// basisDoc is the stored form of a [Basis].
type basisDoc struct {
	State      *stateDoc  `json:"state,omitempty"`
	Budget     string     `json:"budget,omitempty"`
	Price      float64    `json:"price,omitempty"`
	Sent       bool       `json:"sent,omitempty"`
	LookAgain  bool       `json:"lookAgain,omitempty"`
	RetryAfter *time.Time `json:"retryAfter,omitempty"`
	TargetNext *time.Time `json:"targetNext,omitempty"`
	FreshUntil *time.Time `json:"freshUntil,omitempty"`
	OpenUntil  *time.Time `json:"openUntil,omitempty"`
}

// stateDoc is the stored form of the state of a schedule. It leaves out the live run, because a
// decision is made without one.
type stateDoc struct {
	Due            dueDoc      `json:"due"`
	Anchor         *time.Time  `json:"anchor,omitempty"`
	LastSlot       *time.Time  `json:"lastSlot,omitempty"`
	FailureCount   int         `json:"failureCount,omitempty"`
	PausedUntil    *time.Time  `json:"pausedUntil,omitempty"`
	PauseReason    string      `json:"pauseReason,omitempty"`
	RetryAfter     *time.Time  `json:"retryAfter,omitempty"`
	TargetNext     *time.Time  `json:"targetNext,omitempty"`
	FreshUntil     *time.Time  `json:"freshUntil,omitempty"`
	LastCall       *time.Time  `json:"lastCall,omitempty"`
	AccountedUntil *time.Time  `json:"accountedUntil,omitempty"`
	LastRun        *lastRunDoc `json:"lastRun,omitempty"`
	Interval       *hintDoc    `json:"intervalHint,omitempty"`
	OneShot        *hintDoc    `json:"oneShotHint,omitempty"`
	OneOffs        *oneOffsDoc `json:"oneOffs,omitempty"`
	Tempo          []byte      `json:"tempo,omitempty"`
}

type dueDoc struct {
	At           *time.Time      `json:"at,omitempty"`
	Slot         *time.Time      `json:"slot,omitempty"`
	Attempt      int             `json:"attempt,omitempty"`
	InfraAttempt int             `json:"infraAttempt,omitempty"`
	Source       governor.Source `json:"source,omitempty"`
}

type lastRunDoc struct {
	Slot         *time.Time `json:"slot,omitempty"`
	Attempt      int        `json:"attempt"`
	InfraAttempt int        `json:"infraAttempt,omitempty"`
	Status       string     `json:"status"`
	StartedAt    *time.Time `json:"startedAt,omitempty"`
	FinishedAt   *time.Time `json:"finishedAt,omitempty"`
}

type hintDoc struct {
	IntervalMs  int64      `json:"intervalMs,omitempty"`
	At          *time.Time `json:"at,omitempty"`
	ExpiresAt   time.Time  `json:"expiresAt"`
	Reason      string     `json:"reason,omitempty"`
	Author      string     `json:"author"`
	CreatedAt   time.Time  `json:"createdAt"`
	OutageSince *time.Time `json:"outageSince,omitempty"`
}

type oneOffsDoc struct {
	Next     *oneOffDoc `json:"next,omitempty"`
	InFlight *oneOffDoc `json:"inFlight,omitempty"`
	Waiting  int        `json:"waiting"`
	LastSlot *time.Time `json:"lastSlot,omitempty"`
}

type oneOffDoc struct {
	Slot         time.Time          `json:"slot"`
	At           time.Time          `json:"at"`
	Attempt      int                `json:"attempt"`
	InfraAttempt int                `json:"infraAttempt,omitempty"`
	Priority     endpoints.Priority `json:"priority,omitempty"`
	Deadline     *time.Time         `json:"deadline,omitempty"`
}

// encode returns the stored form, and nil if the basis is empty.
func (b *Basis) encode() json.RawMessage {
	if *b == (Basis{}) { // The usual case, without an allocation.
		return nil
	}
	doc := basisDoc{
		Sent:       b.Sent,
		LookAgain:  b.LookAgain,
		RetryAfter: pg.Optional(b.RetryAfter),
		TargetNext: pg.Optional(b.TargetNext),
		OpenUntil:  pg.Optional(b.OpenUntil),
		FreshUntil: pg.Optional(b.FreshUntil),
	}
	if b.Shared != nil {
		doc.Budget, doc.Price = b.Shared.Name, b.Shared.Price
	}
	if b.State != nil {
		doc.State = stateDocOf(b.State)
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		panic(err) // Texts, numbers and instants between 2020 and 2200 always encode.
	}
	return raw
}

// DecodeBasis returns a stored basis. NULL is the empty one.
func DecodeBasis(raw json.RawMessage) (Basis, error) {
	var doc basisDoc
	if len(raw) == 0 {
		return Basis{}, nil
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return Basis{}, fmt.Errorf("decoding the basis of a decision: %w", err)
	}
	b := Basis{
		Sent:       doc.Sent,
		LookAgain:  doc.LookAgain,
		RetryAfter: pg.OrZero(doc.RetryAfter),
		TargetNext: pg.OrZero(doc.TargetNext),
		OpenUntil:  pg.OrZero(doc.OpenUntil),
		FreshUntil: pg.OrZero(doc.FreshUntil),
	}
	if doc.Budget != "" {
		b.Shared = &endpoints.SharedBudget{Name: doc.Budget, Price: doc.Price}
	}
	if doc.State == nil {
		return b, nil
	}
	state, err := doc.State.state()
	b.State = &state
	return b, err
}

// EncodeState returns the stored form of a state.
func EncodeState(s *endpoints.State) json.RawMessage {
	raw, err := json.Marshal(stateDocOf(s))
	if err != nil {
		panic(err) // As in encode.
	}
	return raw
}

// stateDocOf returns the stored form of a state.
func stateDocOf(s *endpoints.State) *stateDoc {
	doc := &stateDoc{
		Due: dueDoc{
			At:           pg.Optional(s.Due.At),
			Slot:         pg.Optional(s.Due.Slot),
			Attempt:      s.Due.Attempt,
			InfraAttempt: s.Due.InfraAttempt,
			Source:       s.Due.Source,
		},
		Anchor:         pg.Optional(s.Anchor),
		LastSlot:       pg.Optional(s.LastSlot),
		FailureCount:   s.FailureCount,
		PausedUntil:    pg.Optional(s.PausedUntil),
		PauseReason:    pg.Storable(s.PauseReason),
		RetryAfter:     pg.Optional(s.RetryAfter),
		TargetNext:     pg.Optional(s.TargetNext),
		FreshUntil:     pg.Optional(s.FreshUntil),
		LastCall:       pg.Optional(s.LastCall),
		AccountedUntil: pg.Optional(s.AccountedUntil),
		Interval:       hintDocOf(s.IntervalHint),
		OneShot:        hintDocOf(s.OneShotHint),
		Tempo:          s.Tempo.Encode(),
	}
	if r := s.LastRun; r != nil {
		doc.LastRun = &lastRunDoc{
			Slot:         pg.Optional(r.Slot),
			Attempt:      r.Attempt,
			InfraAttempt: r.InfraAttempt,
			Status:       r.Status,
			StartedAt:    pg.Optional(r.StartedAt),
			FinishedAt:   pg.Optional(r.FinishedAt),
		}
	}
	if q := &s.OneOffs; q.Next != nil || q.InFlight != nil {
		doc.OneOffs = &oneOffsDoc{
			Next:     oneOffDocOf(q.Next),
			InFlight: oneOffDocOf(q.InFlight),
			Waiting:  q.Waiting,
			LastSlot: pg.Optional(q.LastSlot),
		}
	}
	return doc
}

func hintDocOf(h *endpoints.Hint) *hintDoc {
	if h == nil {
		return nil
	}
	return &hintDoc{
		IntervalMs:  h.Interval.Milliseconds(),
		At:          pg.Optional(h.At),
		ExpiresAt:   h.ExpiresAt,
		Reason:      h.Reason,
		Author:      h.Author,
		CreatedAt:   h.CreatedAt,
		OutageSince: pg.Optional(h.OutageSince),
	}
}

func oneOffDocOf(o *endpoints.OneOff) *oneOffDoc {
	if o == nil {
		return nil
	}
	return &oneOffDoc{
		Slot:         o.Slot,
		At:           o.At,
		Attempt:      o.Attempt,
		InfraAttempt: o.InfraAttempt,
		Priority:     o.Priority,
		Deadline:     pg.Optional(o.Deadline),
	}
}

// state is the inverse of stateDocOf. A tempo of another version is an error, because other code
// made the decision.
func (d *stateDoc) state() (endpoints.State, error) {
	s := endpoints.State{
		Due: endpoints.Due{
			At:           pg.OrZero(d.Due.At),
			Slot:         pg.OrZero(d.Due.Slot),
			Attempt:      d.Due.Attempt,
			InfraAttempt: d.Due.InfraAttempt,
			Source:       d.Due.Source,
		},
		Anchor:         pg.OrZero(d.Anchor),
		LastSlot:       pg.OrZero(d.LastSlot),
		FailureCount:   d.FailureCount,
		PausedUntil:    pg.OrZero(d.PausedUntil),
		PauseReason:    d.PauseReason,
		RetryAfter:     pg.OrZero(d.RetryAfter),
		TargetNext:     pg.OrZero(d.TargetNext),
		FreshUntil:     pg.OrZero(d.FreshUntil),
		LastCall:       pg.OrZero(d.LastCall),
		AccountedUntil: pg.OrZero(d.AccountedUntil),
		IntervalHint:   d.Interval.hint(),
		OneShotHint:    d.OneShot.hint(),
	}
	if r := d.LastRun; r != nil {
		s.LastRun = &endpoints.LastRun{
			Slot:         pg.OrZero(r.Slot),
			Attempt:      r.Attempt,
			InfraAttempt: r.InfraAttempt,
			Status:       r.Status,
			StartedAt:    pg.OrZero(r.StartedAt),
			FinishedAt:   pg.OrZero(r.FinishedAt),
		}
	}
	if q := d.OneOffs; q != nil {
		s.OneOffs = endpoints.OneOffs{
			Next:     q.Next.oneOff(),
			InFlight: q.InFlight.oneOff(),
			Waiting:  q.Waiting,
			LastSlot: pg.OrZero(q.LastSlot),
		}
	}
	if d.Tempo == nil {
		return s, nil
	}
	t, err := tempo.Decode(d.Tempo)
	s.Tempo = &t
	return s, err
}

func (d *hintDoc) hint() *endpoints.Hint {
	if d == nil {
		return nil
	}
	return &endpoints.Hint{
		Interval:    pg.Millis(d.IntervalMs),
		At:          pg.OrZero(d.At),
		ExpiresAt:   d.ExpiresAt,
		Reason:      d.Reason,
		Author:      d.Author,
		CreatedAt:   d.CreatedAt,
		OutageSince: pg.OrZero(d.OutageSince),
	}
}

func (d *oneOffDoc) oneOff() *endpoints.OneOff {
	if d == nil {
		return nil
	}
	return &endpoints.OneOff{
		Slot:         d.Slot,
		At:           d.At,
		Attempt:      d.Attempt,
		InfraAttempt: d.InfraAttempt,
		Priority:     d.Priority,
		Deadline:     pg.OrZero(d.Deadline),
	}
}
