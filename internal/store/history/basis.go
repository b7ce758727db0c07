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
	// Started is the start of the run that was detached; zero for every other decision.
	Started time.Time
}

// basisDoc is the stored form of a [Basis].
type basisDoc struct {
	State      *stateDoc `json:"state,omitempty"`
	Budget     string    `json:"budget,omitempty"`
	Price      float64   `json:"price,omitempty"`
	Sent       bool      `json:"sent,omitempty"`
	LookAgain  bool      `json:"lookAgain,omitempty"`
	RetryAfter time.Time `json:"retryAfter,omitzero"`
	TargetNext time.Time `json:"targetNext,omitzero"`
	FreshUntil time.Time `json:"freshUntil,omitzero"`
	OpenUntil  time.Time `json:"openUntil,omitzero"`
	Started    time.Time `json:"started,omitzero"`
}

// stateDoc is the stored form of the state of a schedule. It leaves out the live run, because a
// decision is made without one.
type stateDoc struct {
	Due            dueDoc      `json:"due"`
	Anchor         time.Time   `json:"anchor,omitzero"`
	LastSlot       time.Time   `json:"lastSlot,omitzero"`
	RunsDone       int         `json:"runsDone,omitempty"`
	EndedAt        time.Time   `json:"endedAt,omitzero"`
	FailureCount   int         `json:"failureCount,omitempty"`
	PausedUntil    time.Time   `json:"pausedUntil,omitzero"`
	PauseReason    string      `json:"pauseReason,omitempty"`
	RetryAfter     time.Time   `json:"retryAfter,omitzero"`
	TargetNext     time.Time   `json:"targetNext,omitzero"`
	FreshUntil     time.Time   `json:"freshUntil,omitzero"`
	LastCall       time.Time   `json:"lastCall,omitzero"`
	AccountedUntil time.Time   `json:"accountedUntil,omitzero"`
	LastRun        *lastRunDoc `json:"lastRun,omitempty"`
	Interval       *hintDoc    `json:"intervalHint,omitempty"`
	OneShot        *hintDoc    `json:"oneShotHint,omitempty"`
	OneOffs        *oneOffsDoc `json:"oneOffs,omitempty"`
	Tempo          []byte      `json:"tempo,omitempty"`
}

type dueDoc struct {
	At           time.Time       `json:"at,omitzero"`
	Slot         time.Time       `json:"slot,omitzero"`
	Attempt      int             `json:"attempt,omitempty"`
	InfraAttempt int             `json:"infraAttempt,omitempty"`
	Source       governor.Source `json:"source,omitempty"`
}

type lastRunDoc struct {
	Slot         time.Time `json:"slot,omitzero"`
	Attempt      int       `json:"attempt"`
	InfraAttempt int       `json:"infraAttempt,omitempty"`
	Status       string    `json:"status"`
	StartedAt    time.Time `json:"startedAt,omitzero"`
	FinishedAt   time.Time `json:"finishedAt,omitzero"`
}

type hintDoc struct {
	IntervalMs  int64     `json:"intervalMs,omitempty"`
	At          time.Time `json:"at,omitzero"`
	ExpiresAt   time.Time `json:"expiresAt"`
	Reason      string    `json:"reason,omitempty"`
	Author      string    `json:"author"`
	CreatedAt   time.Time `json:"createdAt"`
	OutageSince time.Time `json:"outageSince,omitzero"`
}

type oneOffsDoc struct {
	Next     *oneOffDoc `json:"next,omitempty"`
	InFlight *oneOffDoc `json:"inFlight,omitempty"`
	Waiting  int        `json:"waiting"`
	LastSlot time.Time  `json:"lastSlot,omitzero"`
}

type oneOffDoc struct {
	Slot         time.Time          `json:"slot"`
	At           time.Time          `json:"at"`
	Attempt      int                `json:"attempt"`
	InfraAttempt int                `json:"infraAttempt,omitempty"`
	Priority     endpoints.Priority `json:"priority,omitempty"`
	Deadline     time.Time          `json:"deadline,omitzero"`
	Undo         bool               `json:"undo,omitempty"`
}

// encode returns the stored form, and nil if the basis is empty.
func (b *Basis) encode() json.RawMessage {
	if *b == (Basis{}) { // The usual case, without an allocation.
		return nil
	}
	doc := basisDoc{
		Sent:       b.Sent,
		LookAgain:  b.LookAgain,
		RetryAfter: b.RetryAfter,
		TargetNext: b.TargetNext,
		OpenUntil:  b.OpenUntil,
		FreshUntil: b.FreshUntil,
		Started:    b.Started,
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
		RetryAfter: doc.RetryAfter,
		TargetNext: doc.TargetNext,
		OpenUntil:  doc.OpenUntil,
		FreshUntil: doc.FreshUntil,
		Started:    doc.Started,
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
		Due:            dueDoc(s.Due),
		Anchor:         s.Anchor,
		LastSlot:       s.LastSlot,
		RunsDone:       s.RunsDone,
		EndedAt:        s.EndedAt,
		FailureCount:   s.FailureCount,
		PausedUntil:    s.PausedUntil,
		PauseReason:    pg.Storable(s.PauseReason),
		RetryAfter:     s.RetryAfter,
		TargetNext:     s.TargetNext,
		FreshUntil:     s.FreshUntil,
		LastCall:       s.LastCall,
		AccountedUntil: s.AccountedUntil,
		Interval:       hintDocOf(s.IntervalHint),
		OneShot:        hintDocOf(s.OneShotHint),
		Tempo:          s.Tempo.Encode(),
	}
	if r := s.LastRun; r != nil {
		doc.LastRun = new(lastRunDoc(*r))
	}
	if q := &s.OneOffs; q.Next != nil || q.InFlight != nil {
		doc.OneOffs = &oneOffsDoc{
			Next:     oneOffDocOf(q.Next),
			InFlight: oneOffDocOf(q.InFlight),
			Waiting:  q.Waiting,
			LastSlot: q.LastSlot,
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
		At:          h.At,
		ExpiresAt:   h.ExpiresAt,
		Reason:      h.Reason,
		Author:      h.Author,
		CreatedAt:   h.CreatedAt,
		OutageSince: h.OutageSince,
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
		Deadline:     o.Deadline,
		Undo:         o.Undo,
	}
}

// state is the inverse of stateDocOf. A tempo of another version is an error, because other code
// made the decision.
func (d *stateDoc) state() (endpoints.State, error) {
	s := endpoints.State{
		Due:            endpoints.Due(d.Due),
		Anchor:         d.Anchor,
		LastSlot:       d.LastSlot,
		RunsDone:       d.RunsDone,
		EndedAt:        d.EndedAt,
		FailureCount:   d.FailureCount,
		PausedUntil:    d.PausedUntil,
		PauseReason:    d.PauseReason,
		RetryAfter:     d.RetryAfter,
		TargetNext:     d.TargetNext,
		FreshUntil:     d.FreshUntil,
		LastCall:       d.LastCall,
		AccountedUntil: d.AccountedUntil,
		IntervalHint:   d.Interval.hint(),
		OneShotHint:    d.OneShot.hint(),
	}
	if r := d.LastRun; r != nil {
		s.LastRun = new(endpoints.LastRun(*r))
	}
	if q := d.OneOffs; q != nil {
		s.OneOffs = endpoints.OneOffs{
			Next:     q.Next.oneOff(),
			InFlight: q.InFlight.oneOff(),
			Waiting:  q.Waiting,
			LastSlot: q.LastSlot,
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
		At:          d.At,
		ExpiresAt:   d.ExpiresAt,
		Reason:      d.Reason,
		Author:      d.Author,
		CreatedAt:   d.CreatedAt,
		OutageSince: d.OutageSince,
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
		Deadline:     d.Deadline,
		Undo:         d.Undo,
	}
}
