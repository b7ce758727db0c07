package chains

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"rubato/internal/auditlog"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
)

// Chain is a stored chain.
type Chain struct {
	Definition

	// Version counts the changes of the definition, from 1.
	Version              int64
	CreatedAt, UpdatedAt time.Time
}

// Plan returns the parsed definition.
func (c *Chain) Plan() (*Plan, error) {
	plan, err := Parse(c.Definition)
	if err != nil {
		return nil, fmt.Errorf("parsing the stored chain %s: %w", c.Name, err)
	}
	return plan, nil
}

// Want returns the definition to store. stored is nil if there is none.
type Want func(stored *Definition) (Definition, error)

// Definitions keeps chains. Every method is one transaction, scoped by tenant; another tenant's
// chain is [errs.NotFound].
type Definitions interface {
	// Put stores the chain that want makes of the stored definition of a name, or of nil without
	// one. The stored definition is locked meanwhile. An error of want is returned, and nothing
	// changes.
	Put(ctx context.Context, by auditlog.Actor, name string, want Want) (c Chain, created bool, err error)
	Get(ctx context.Context, tenant [16]byte, name string) (Chain, error)
	// Delete removes a chain. Its runs keep their definition: those in progress go on, and all stay
	// on record.
	Delete(ctx context.Context, by auditlog.Actor, name string) error
	// List returns chains after a name, by name.
	List(ctx context.Context, tenant [16]byte, after string, limit int) ([]Chain, error)
}

// Started is the start of a run.
type Started struct {
	Chain Chain
	Input json.RawMessage
	// Key is an idempotency key; empty: none.
	Key string
}

// Record is a run on record. Instants that do not apply are zero.
type Record struct {
	ID     RunID
	Chain  string
	Status Status
	Reason string
	// Key is its idempotency key; empty: none.
	Key         string
	Version     int64
	Definition  Definition
	Input       json.RawMessage
	Output      json.RawMessage
	RequestedBy string

	CreatedAt, Deadline, CancelRequestedAt, EndedAt time.Time
	// Failures is the number of advances in a row that failed, for a reason that the log of the
	// workers has. The next one is at RetryAt.
	Failures int
	RetryAt  time.Time
}

// StepRecord is a step of a run on record.
type StepRecord struct {
	Key

	Status StepStatus
	Reason string
	Error  string
	Output json.RawMessage
	Item   json.RawMessage
	// RunID is the first attempt of its one-off run; zero: none.
	RunID              [16]byte
	StartedAt, EndedAt time.Time
	Undo               UndoStatus
	UndoError          string
	// UndoRunID is the first attempt of its compensation; zero: none.
	UndoRunID [16]byte
	// Order is the order in which the steps ended; 0: it has not.
	Order int64
	// Elements counts the elements of a step with forEach by status.
	Elements map[StepStatus]int
}

// Records keeps runs of chains, like [Definitions].
type Records interface {
	// Start starts a run, or returns the one that was started with the key before. The error is an
	// [errs.Exhausted] if the tenant has [MaxOpenRuns].
	Start(ctx context.Context, by auditlog.Actor, s Started) (r Record, created bool, err error)
	// Runs returns the runs of a chain below an ID, newest first.
	Runs(ctx context.Context, tenant [16]byte, chain string, before RunID, limit int) ([]Record, error)
	// Record returns a run, and Run returns it with its steps, and with at most [MaxShownElements]
	// elements: those that failed first.
	Record(ctx context.Context, tenant [16]byte, id RunID) (Record, error)
	Run(ctx context.Context, tenant [16]byte, id RunID) (Record, []StepRecord, error)
	// Cancel asks for the end of a run. The error is an [errs.Conflict] if it is over.
	Cancel(ctx context.Context, by auditlog.Actor, id RunID) error
}

// Service implements the operations on chains. It is safe for concurrent use.
type Service struct {
	Definitions
	Records
}

// NewService returns a service over its stores.
func NewService(definitions Definitions, records Records) *Service {
	return &Service{definitions, records}
}

// Put stores a chain, or replaces the one of its name. A masked header keeps its stored value. The
// error names every bad field.
func (s *Service) Put(ctx context.Context, by auditlog.Actor, d Definition) (Chain, bool, error) {
	return s.Definitions.Put(ctx, by, d.Name, func(stored *Definition) (Definition, error) {
		whole, masked := d.unmasked(stored)
		_, err := Parse(whole) // The stored values too, because their templates may name steps that are gone.
		if code := errs.CodeOf(err); err != nil && code != errs.Invalid {
			return whole, err
		}
		return whole, errs.InvalidFields(slices.Concat(masked, errs.FieldsOf(err)))
	})
}

// Run returns a run with its steps in the order of its definition, the elements of a forEach after
// their step.
func (s *Service) Run(ctx context.Context, tenant [16]byte, id RunID) (Record, []StepRecord, error) {
	run, steps, err := s.Records.Run(ctx, tenant, id)
	if err != nil {
		return Record{}, nil, err
	}
	place := map[string]int{}
	for i, step := range run.Definition.Steps {
		place[step.Name] = i
	}
	slices.SortFunc(steps, func(a, b StepRecord) int {
		return cmp.Or(cmp.Compare(place[a.Name], place[b.Name]), cmp.Compare(a.Index, b.Index))
	})
	return run, steps, nil
}

// Start starts a run of a chain. Starts with the same key and input are one run.
func (s *Service) Start(ctx context.Context, by auditlog.Actor, name string, input json.RawMessage, key string) (Record, bool, error) {
	chain, err := s.Get(ctx, by.TenantID, name)
	if err != nil {
		return Record{}, false, err
	}
	plan, err := chain.Plan()
	if err != nil {
		return Record{}, false, err
	}
	if input, err = plan.ReadInput(input); err != nil {
		return Record{}, false, err
	}
	if key != "" && !endpoints.IsKeyText(key) {
		return Record{}, false, errs.InvalidFields([]errs.Field{{
			Field:   "idempotencyKey",
			Code:    "invalid_value",
			Message: "must hold 1 to 255 characters without control characters",
		}})
	}
	return s.Records.Start(ctx, by, Started{
		Chain: chain,
		Input: input,
		Key:   key,
	})
}

// ErrTooManyRuns returns the error of a run beyond [MaxOpenRuns].
func ErrTooManyRuns() error {
	return errs.New(errs.Exhausted, "too_many_open_chain_runs", fmt.Sprintf("%d runs of chains have not ended yet, which is the most; start again when some have", MaxOpenRuns))
}

// Object returns a chain as the audit log names it.
func (d *Definition) Object() auditlog.Object {
	return auditlog.Object{Kind: auditlog.Chain, ID: d.Name}
}

// Object returns a run as the audit log names it.
func (id RunID) Object() auditlog.Object {
	return auditlog.Object{Kind: auditlog.ChainRun, ID: id.String()}
}
