// Package chains keeps chains and their runs in Postgres, and advances runs.
package chains

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"rubato/internal/auditlog"
	"rubato/internal/chains"
	"rubato/internal/errs"
	"rubato/internal/runs"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// Store implements chains.Definitions and chains.Records.
type Store struct{ db *pg.DB }

var (
	_ chains.Definitions = (*Store)(nil)
	_ chains.Records     = (*Store)(nil)
)

// New returns the store of chains.
func New(db *pg.DB) *Store { return &Store{db} }

// Put implements chains.Definitions.
func (s *Store) Put(ctx context.Context, by auditlog.Actor, name string, want chains.Want) (c chains.Chain, created bool, err error) {
	err = s.db.Tx(ctx, func(tx pgx.Tx) error {
		stored, err := s.locked(ctx, tx, by.TenantID, name)
		if err != nil {
			return err
		}
		d, err := want(stored)
		if err != nil {
			return err
		}
		raw, err := json.Marshal(d)
		if err != nil {
			return fmt.Errorf("encoding chain %s: %w", d.Name, err)
		}
		row, err := s.db.Q.ChainPut(ctx, tx, dbsqlc.ChainPutParams{
			TenantID:   by.TenantID,
			Name:       d.Name,
			Definition: raw,
			Now:        s.db.Now(),
		})
		if err != nil {
			return fmt.Errorf("storing chain %s: %w", d.Name, err)
		}
		if c, err = chainOf(row); err != nil {
			return err
		}
		created = stored == nil && row.Version == 1 && row.CreatedAt.Equal(row.UpdatedAt)
		change := auditlog.Change{
			Act:    auditlog.Act{By: by, Action: auditlog.Edit},
			Object: d.Object(),
			Before: map[string]any{},
			After:  map[string]any{"version": row.Version},
		}
		if created {
			change.Action, change.Before = auditlog.Create, nil
		}
		return s.db.Audited(ctx, tx, change)
	})
	return c, created, err
}

// locked locks a chain and returns its definition; nil: there is none.
func (s *Store) locked(ctx context.Context, tx pgx.Tx, tenant [16]byte, name string) (stored *chains.Definition, err error) {
	rows, err := s.db.Q.ChainLock(ctx, tx, dbsqlc.ChainLockParams{TenantID: tenant, Name: pg.Storable(name)})
	if err != nil {
		return nil, fmt.Errorf("locking chain %s: %w", name, err)
	}
	for _, row := range rows {
		c, err := chainOf(row)
		if err != nil {
			return nil, err
		}
		stored = &c.Definition
	}
	return stored, nil
}

// Get implements chains.Definitions.
func (s *Store) Get(ctx context.Context, tenant [16]byte, name string) (chains.Chain, error) {
	return getChain(ctx, s.db, s.db.Pool, tenant, name)
}

func getChain(ctx context.Context, db *pg.DB, q dbsqlc.DBTX, tenant [16]byte, name string) (chains.Chain, error) {
	row, err := db.Q.ChainGet(ctx, q, dbsqlc.ChainGetParams{TenantID: tenant, Name: pg.Storable(name)})
	if pg.IsMissing(err) {
		return chains.Chain{}, noChain(name)
	}
	if err != nil {
		return chains.Chain{}, fmt.Errorf("reading chain %s: %w", name, pg.Translate(err))
	}
	return chainOf(row)
}

func noChain(name string) error {
	return errs.New(errs.NotFound, "not_found", fmt.Sprintf("there is no chain %q", name))
}

// Delete implements chains.Definitions.
func (s *Store) Delete(ctx context.Context, by auditlog.Actor, name string) error {
	return s.db.Tx(ctx, func(tx pgx.Tx) error {
		deleted, err := s.db.Q.ChainDelete(ctx, tx, dbsqlc.ChainDeleteParams{TenantID: by.TenantID, Name: pg.Storable(name)})
		if err != nil {
			return fmt.Errorf("deleting chain %s: %w", name, err)
		}
		if deleted == 0 {
			return noChain(name)
		}
		return s.db.Audited(ctx, tx, auditlog.Change{
			Act:    auditlog.Act{By: by, Action: auditlog.Delete},
			Object: (&chains.Definition{Name: name}).Object(),
			Before: map[string]any{"name": name},
		})
	})
}

// List implements chains.Definitions.
func (s *Store) List(ctx context.Context, tenant [16]byte, after string, limit int) (list []chains.Chain, err error) {
	rows, err := s.db.Q.ChainList(ctx, s.db.Pool, dbsqlc.ChainListParams{
		TenantID: tenant,
		After:    after,
		MaxRows:  int32(limit),
	})
	if err != nil {
		return nil, fmt.Errorf("listing chains: %w", pg.Translate(err))
	}
	for _, row := range rows {
		c, err := chainOf(row)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

// Start implements chains.Records.
func (s *Store) Start(ctx context.Context, by auditlog.Actor, start chains.Started) (r chains.Record, created bool, err error) {
	err = s.db.Tx(ctx, func(tx pgx.Tx) error {
		r, created, err = insertRun(ctx, tx, s.db, by, start)
		return err
	})
	return r, created, err
}

// insertRun inserts a run with its steps, or reads the run that has its key.
func insertRun(ctx context.Context, tx pgx.Tx, db *pg.DB, by auditlog.Actor, start chains.Started) (r chains.Record, created bool, err error) {
	id, err := uuid.NewV7()
	if err != nil {
		return r, false, fmt.Errorf("making the ID of a chain run: %w", err)
	}
	definition, err := json.Marshal(start.Chain.Definition)
	if err != nil {
		return r, false, fmt.Errorf("encoding chain %s: %w", start.Chain.Name, err)
	}
	rows, err := db.Q.ChainRunInsert(ctx, tx, dbsqlc.ChainRunInsertParams{
		ID:             dbsqlc.UUID(id),
		TenantID:       by.TenantID,
		Chain:          start.Chain.Name,
		Version:        start.Chain.Version,
		Definition:     definition,
		Input:          start.Input,
		IdempotencyKey: pg.OptionalText(start.Key),
		RequestedBy:    by.Name,
		TimeoutMs:      start.Chain.TimeoutMs,
		Now:            db.Now(),
	})
	if err != nil {
		return r, false, fmt.Errorf("starting chain %s: %w", start.Chain.Name, err)
	}
	if rows == 0 {
		r, err = repeated(ctx, tx, db, by, start)
		return r, false, err
	}
	open, err := db.Q.ChainRunCountOpen(ctx, tx, dbsqlc.ChainRunCountOpenParams{TenantID: by.TenantID, MaxRows: chains.MaxOpenRuns + 1})
	if err != nil {
		return r, false, fmt.Errorf("counting the open runs of chains: %w", err)
	}
	if open > chains.MaxOpenRuns { // This run is one of them, and a repeated start is none.
		return r, false, chains.ErrTooManyRuns()
	}
	steps := dbsqlc.ChainStepsInsertParams{RunID: dbsqlc.UUID(id)}
	for _, step := range start.Chain.Steps {
		steps.Names = append(steps.Names, step.Name)
		steps.Elements, steps.Items = append(steps.Elements, chains.Whole), append(steps.Items, "")
	}
	if err := db.Q.ChainStepsInsert(ctx, tx, steps); err != nil {
		return r, false, fmt.Errorf("inserting the steps of a run of chain %s: %w", start.Chain.Name, err)
	}
	row, err := db.Q.ChainRunGet(ctx, tx, dbsqlc.ChainRunGetParams{ID: dbsqlc.UUID(id), TenantID: by.TenantID})
	if err != nil {
		return r, false, fmt.Errorf("reading a run of chain %s: %w", start.Chain.Name, err)
	}
	if r, err = recordOf(row); err != nil {
		return r, false, err
	}
	return r, true, db.Audited(ctx, tx, auditlog.Change{
		Act:    auditlog.Act{By: by, Action: auditlog.RunNow},
		Object: r.ID.Object(),
		After:  map[string]any{"chain": r.Chain, "version": r.Version},
	})
}

// repeated reads the run that has the key of a start. The key stands for one input.
func repeated(ctx context.Context, tx pgx.Tx, db *pg.DB, by auditlog.Actor, start chains.Started) (r chains.Record, err error) {
	row, err := db.Q.ChainRunByKey(ctx, tx, dbsqlc.ChainRunByKeyParams{
		TenantID:       by.TenantID,
		Chain:          start.Chain.Name,
		IdempotencyKey: start.Key,
		Input:          start.Input,
	})
	if err != nil {
		return r, fmt.Errorf("reading the run of chain %s with a key: %w", start.Chain.Name, err)
	}
	if r, err = recordOf(&row.ChainRun); err != nil {
		return r, err
	}
	if !row.Same {
		return r, errs.New(errs.Conflict, "idempotency_key_reused",
			"the idempotencyKey names a run of this chain with another input; use another key, or repeat the request as it was")
	}
	return r, nil
}

// Runs implements chains.Records.
func (s *Store) Runs(ctx context.Context, tenant [16]byte, chain string, before chains.RunID, limit int) (list []chains.Record, err error) {
	rows, err := s.db.Q.ChainRunList(ctx, s.db.Pool, dbsqlc.ChainRunListParams{
		TenantID: tenant,
		Chain:    pg.Storable(chain),
		Before:   pg.Given(before),
		MaxRows:  int32(limit),
	})
	if err != nil {
		return nil, fmt.Errorf("listing the runs of chain %s: %w", chain, pg.Translate(err))
	}
	for _, row := range rows {
		r, err := recordOf(row)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

// Run implements chains.Records.
func (s *Store) Run(ctx context.Context, tenant [16]byte, id chains.RunID) (r chains.Record, steps []chains.StepRecord, err error) {
	err = s.db.Snapshot(ctx, func(tx pgx.Tx) error {
		if r, err = s.record(ctx, tx, tenant, id); err != nil {
			return err
		}
		rows, err := s.db.Q.ChainStepList(ctx, tx, dbsqlc.ChainStepListParams{RunID: dbsqlc.UUID(id), MaxElements: chains.MaxShownElements})
		if err != nil {
			return fmt.Errorf("reading the steps of chain run %s: %w", id, err)
		}
		counts, err := s.db.Q.ChainElementCounts(ctx, tx, dbsqlc.UUID(id))
		if err != nil {
			return fmt.Errorf("counting the elements of chain run %s: %w", id, err)
		}
		elements := map[string]map[chains.StepStatus]int{}
		for _, row := range counts {
			if elements[row.Name] == nil {
				elements[row.Name] = map[chains.StepStatus]int{}
			}
			elements[row.Name][chains.StepStatus(row.Status)] = int(row.Elements)
		}
		for _, row := range rows {
			step := stepRecord(row)
			if step.Index == chains.Whole {
				step.Elements = elements[step.Name]
			}
			steps = append(steps, step)
		}
		return nil
	})
	return r, steps, err
}

// Record implements chains.Records.
func (s *Store) Record(ctx context.Context, tenant [16]byte, id chains.RunID) (chains.Record, error) {
	r, err := s.record(ctx, s.db.Pool, tenant, id)
	return r, pg.Translate(err)
}

func (s *Store) record(ctx context.Context, q dbsqlc.DBTX, tenant [16]byte, id chains.RunID) (chains.Record, error) {
	row, err := s.db.Q.ChainRunGet(ctx, q, dbsqlc.ChainRunGetParams{ID: dbsqlc.UUID(id), TenantID: tenant})
	if pg.IsMissing(err) {
		return chains.Record{}, noRun(id)
	}
	if err != nil {
		return chains.Record{}, fmt.Errorf("reading chain run %s: %w", id, err)
	}
	return recordOf(row)
}

func noRun(id chains.RunID) error {
	return errs.New(errs.NotFound, "not_found", fmt.Sprintf("there is no chain run %s", id))
}

// Cancel implements chains.Records.
func (s *Store) Cancel(ctx context.Context, by auditlog.Actor, id chains.RunID) error {
	return s.db.Tx(ctx, func(tx pgx.Tx) error {
		changed, err := s.db.Q.ChainRunCancel(ctx, tx, dbsqlc.ChainRunCancelParams{
			ID:       dbsqlc.UUID(id),
			TenantID: by.TenantID,
			Now:      s.db.Now(),
		})
		if err != nil {
			return fmt.Errorf("canceling chain run %s: %w", id, err)
		}
		if changed == 1 {
			return s.db.Audited(ctx, tx, auditlog.Change{
				Act:    auditlog.Act{By: by, Action: auditlog.Cancel},
				Object: id.Object(),
				Before: map[string]any{},
				After:  map[string]any{"cancelRequested": true},
			})
		}
		row, err := s.db.Q.ChainRunGet(ctx, tx, dbsqlc.ChainRunGetParams{ID: dbsqlc.UUID(id), TenantID: by.TenantID})
		if pg.IsMissing(err) {
			return noRun(id)
		}
		if err != nil {
			return fmt.Errorf("reading chain run %s: %w", id, err)
		}
		return errs.New(errs.Conflict, "chain_run_finished", fmt.Sprintf("chain run %s is over (%s) and cannot be canceled", id, row.Status))
	})
}

func chainOf(row *dbsqlc.Chain) (chains.Chain, error) {
	c := chains.Chain{
		Version:   row.Version,
		CreatedAt: row.CreatedAt,
		UpdatedAt: row.UpdatedAt,
	}
	if err := json.Unmarshal(row.Definition, &c.Definition); err != nil {
		return c, fmt.Errorf("decoding chain %s: %w", row.Name, err)
	}
	return c, nil
}

func recordOf(row *dbsqlc.ChainRun) (chains.Record, error) {
	r := chains.Record{
		ID:                chains.RunID(row.ID),
		Chain:             row.Chain,
		Status:            chains.Status(row.Status),
		Reason:            row.Reason,
		Key:               pg.OrZero(row.IdempotencyKey),
		Version:           row.Version,
		Input:             row.Input,
		Output:            row.Output,
		RequestedBy:       row.RequestedBy,
		CreatedAt:         row.CreatedAt,
		Deadline:          pg.OrZero(row.DeadlineAt),
		CancelRequestedAt: pg.OrZero(row.CancelRequestedAt),
		EndedAt:           pg.OrZero(row.EndedAt),
		Failures:          int(row.Failures),
		RetryAt:           pg.OrZero(row.RetryAt),
	}
	if err := json.Unmarshal(row.Definition, &r.Definition); err != nil {
		return r, fmt.Errorf("decoding the definition of chain run %s: %w", r.ID, err)
	}
	return r, nil
}

func stepRecord(row *dbsqlc.ChainStepListRow) chains.StepRecord {
	return chains.StepRecord{
		Key:       chains.Key{Name: row.Name, Index: int(row.Element)},
		Status:    chains.StepStatus(row.Status),
		Reason:    row.Reason,
		Error:     row.Error,
		Output:    row.Output,
		Item:      row.Item,
		RunID:     firstRun(row.OwnSlot, row.OwnEndpoint),
		StartedAt: pg.OrZero(row.StartedAt),
		EndedAt:   pg.OrZero(row.EndedAt),
		Undo:      chains.UndoStatus(row.Undo),
		UndoError: row.UndoError,
		UndoRunID: firstRun(row.UndoSlot, row.UndoEndpoint),
		Order:     pg.OrZero(row.Ended),
	}
}

// firstRun returns the ID of the first attempt of an item; zero if there is none.
func firstRun(slot *time.Time, endpoint *dbsqlc.UUID) (id [16]byte) {
	if slot == nil || endpoint == nil {
		return id
	}
	return runs.FirstAttempt(*slot, *endpoint)
}
