package endpoints

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/auditlog"
	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/history"
	"rubato/internal/store/pg"
)

// Store stores endpoints. It implements endpoints.Store.
type Store struct {
	db *States
}

var (
	_ endpoints.Store      = (*Store)(nil)
	_ endpoints.OneOffKeys = (*Store)(nil)
)

// NewStore returns the store of endpoints.
func NewStore(db *States) *Store { return &Store{db: db} }

// Create implements endpoints.Store.
func (s *Store) Create(
	ctx context.Context, act auditlog.Act, create func(now time.Time) (*endpoints.Endpoint, endpoints.Recorded, error),
) error {
	var now time.Time
	var e *endpoints.Endpoint
	err := s.db.TxAfter(ctx, []pg.Statement{s.db.Clock(ctx, &now)}, func(tx pg.OpenTx) (err error) {
		var planned endpoints.Recorded
		if e, planned, err = create(now); err != nil {
			return err
		}
		inserts, err := s.inserts(ctx, act, e, planned)
		if err != nil {
			return err
		}
		if err := pg.Pipeline(ctx, tx, inserts...); err != nil {
			return fmt.Errorf("inserting endpoint %s: %w", e.ID, err)
		}
		return s.db.checkStored(ctx, tx, e.TenantID, referral{after: e})
	})
	if err == nil {
		s.db.Wake(ctx, e.State.Due.At, now)
	}
	return err
}

// inserts returns the statements that insert a new endpoint with its schedule, decision, audit
// entry and event.
func (s *Store) inserts(ctx context.Context, act auditlog.Act, e *endpoints.Endpoint, planned endpoints.Recorded) ([]pg.Statement, error) {
	schedule := dbsqlc.ScheduleInsertParams{
		EndpointID: e.ID,
		TenantID:   e.TenantID,
		PlannedAt:  planned.Due.At,
		Slot:       planned.Due.Slot,
		Version:    e.Version,
		LockMs:     lockMs(e.Spec),
		Tags:       tagsOf(e.Spec),
		Priority:   int16(e.Priority()),
		Attempt:    int16(planned.Due.Attempt),
		Source:     string(planned.Due.Source),
	}
	decision, err := decisionRow(e, planned)
	if err != nil {
		return nil, err
	}
	row := insertOf(e)
	entry, _ := pg.AuditRow(auditlog.Change{
		Act:    act,
		Object: e.Object(),
		After:  e.Redacted(),
	}, s.db.Now())
	entry.EndpointID = (*dbsqlc.UUID)(&e.ID)
	var created history.Events
	created.Add(e.TenantID, planned.At, history.EventsOf(nil, e))
	return append([]pg.Statement{
		func(q dbsqlc.DBTX) error { return s.db.Q.EndpointInsert(ctx, q, row) },
		func(q dbsqlc.DBTX) error { return s.db.Q.ScheduleInsert(ctx, q, schedule) },
		func(q dbsqlc.DBTX) error { return s.db.Q.DecisionInsert(ctx, q, decision) },
		func(q dbsqlc.DBTX) error { return s.db.Q.AuditInsert(ctx, q, entry) },
	}, created.Writes(ctx, s.db.DB)...), nil
}

// Get implements endpoints.Store.
func (s *Store) Get(ctx context.Context, tenant [16]byte, id endpoints.ID) (found *endpoints.Endpoint, now time.Time, err error) {
	err = s.db.Snapshot(ctx, func(tx pgx.Tx) error {
		found, err = s.Read(ctx, tx, tenant, id)
		if err != nil {
			return err
		}
		now, err = s.db.DecisionTime(ctx, tx)
		return err
	})
	return found, now, err
}

// Read reads one endpoint with its state, archived or not.
func (s *Store) Read(ctx context.Context, tx pgx.Tx, tenant [16]byte, id endpoints.ID) (*endpoints.Endpoint, error) {
	row, err := s.db.Q.EndpointGet(ctx, tx, dbsqlc.EndpointGetParams{ID: id, TenantID: tenant})
	if err != nil {
		return nil, pg.NotFound(err, id)
	}
	list, err := s.WithStates(ctx, tx, []*dbsqlc.Endpoint{row})
	if err != nil {
		return nil, err
	}
	return list[0], list[0].Fault
}

// List implements endpoints.Store.
func (s *Store) List(ctx context.Context, f endpoints.Filter) (list []*endpoints.Endpoint, now time.Time, err error) {
	err = s.db.List(ctx, func(tx pgx.Tx) error {
		params := dbsqlc.EndpointListParams{
			TenantID: f.TenantID,
			Now:      s.db.Now(),
			Key:      pg.OptionalText(f.Key),
			Name:     pg.OptionalText(f.Name),
			Host:     pg.OptionalText(f.Host),
			State:    f.State,
			MaxRows:  int32(f.Limit),
		}
		if f.NamePrefix != "" {
			params.NameLike = new(likePrefix(f.NamePrefix))
		}
		if f.Before != (endpoints.ID{}) {
			params.Before = (*[16]byte)(&f.Before)
		}
		if len(f.Labels) > 0 {
			params.Labels = pg.EncodeTexts(f.Labels)
		}
		rows, err := s.rows(ctx, tx, params)
		if err != nil {
			return fmt.Errorf("listing endpoints: %w", err)
		}
		if list, err = s.WithStates(ctx, tx, rows); err != nil {
			return err
		}
		now, err = s.db.DecisionTime(ctx, tx)
		return err
	})
	return list, now, err
}

// rows reads a page of configurations. Paused endpoints have a query of their own, because it
// starts from another index.
func (s *Store) rows(ctx context.Context, tx dbsqlc.DBTX, p dbsqlc.EndpointListParams) ([]*dbsqlc.Endpoint, error) {
	if p.State != "paused" {
		return s.db.Q.EndpointList(ctx, tx, p)
	}
	return s.db.Q.EndpointListPaused(ctx, tx, dbsqlc.EndpointListPausedParams{
		TenantID: p.TenantID,
		Now:      p.Now,
		Before:   p.Before,
		Key:      p.Key,
		Name:     p.Name,
		NameLike: p.NameLike,
		Host:     p.Host,
		Labels:   p.Labels,
		MaxRows:  p.MaxRows,
	})
}

// likePrefix returns the LIKE pattern for a prefix, with wildcards escaped.
func likePrefix(prefix string) string {
	return strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(prefix) + "%"
}

// WithStates joins configurations with the states of their schedules, in the order of rows.
func (s *Store) WithStates(ctx context.Context, tx pgx.Tx, rows []*dbsqlc.Endpoint) ([]*endpoints.Endpoint, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	ids := make([][16]byte, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	found, _, err := s.db.States(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	unserved, err := s.db.Q.ScheduleListUnroutable(ctx, tx, ids)
	if err != nil {
		return nil, fmt.Errorf("listing endpoints without a worker for their tags: %w", err)
	}
	for _, row := range unserved {
		found[row.EndpointID].State.UnservedSince = row.UnservedSince
	}
	list := make([]*endpoints.Endpoint, 0, len(rows))
	for _, row := range rows {
		e := endpointOf(row)
		if current := found[row.ID]; current != nil {
			e.State, e.Cron = current.State, current.Cron
		}
		list = append(list, e)
	}
	return list, nil
}

// HintRow returns the row of a hint.
func HintRow(id endpoints.ID, kind string, h *endpoints.Hint) dbsqlc.HintInsertParams {
	row := dbsqlc.HintInsertParams{
		EndpointID:  id,
		Kind:        kind,
		RunAt:       pg.Optional(h.At),
		ExpiresAt:   h.ExpiresAt,
		Reason:      h.Reason,
		Author:      h.Author,
		CreatedAt:   h.CreatedAt,
		OutageSince: pg.Optional(h.OutageSince),
	}
	if kind == history.HintInterval {
		row.IntervalMs = new(h.Interval.Milliseconds())
	}
	return row
}

// LastDecision implements endpoints.Store. A decision is stored in the ledger, or with the finished
// run that caused it. The ledger's decision is the latest if it was made after the start of the
// newest finished run, because a change during a live run makes no decision.
func (s *Store) LastDecision(ctx context.Context, tenant [16]byte, id endpoints.ID) (last endpoints.Recorded, err error) {
	err = s.db.Snapshot(ctx, func(tx pgx.Tx) error {
		if _, err := s.db.Q.EndpointGet(ctx, tx, dbsqlc.EndpointGetParams{ID: id, TenantID: tenant}); err != nil {
			return pg.NotFound(err, id)
		}
		replanned, err := s.db.Q.DecisionGetLast(ctx, tx, id)
		if err != nil {
			return fmt.Errorf("reading the last decision for endpoint %s: %w", id, err)
		}
		finished, err := s.db.Q.RunLastDecision(ctx, tx, id)
		switch {
		case err == nil && !replanned.DecidedAt.After(finished.StartedAt):
			last, err = finishDecision(finished)
			return err
		case err == nil || pg.IsMissing(err):
			last, err = ledgerDecision(replanned)
			return err
		default:
			return fmt.Errorf("reading the last finish of endpoint %s: %w", id, err)
		}
	})
	return last, err
}

// ledgerDecision decodes a decision of the ledger, which no finish made.
func ledgerDecision(row *dbsqlc.Decision) (endpoints.Recorded, error) {
	r := endpoints.Recorded{
		At:      row.DecidedAt,
		Cause:   endpoints.Cause(row.Cause),
		Author:  row.Author,
		Version: row.Version,
	}
	return withDecision(r, row.NextRunAt, row.NextSource, row.NextSteps)
}

// finishDecision decodes the decision of a finished run.
func finishDecision(row *dbsqlc.RunLastDecisionRow) (endpoints.Recorded, error) {
	r := endpoints.Recorded{
		At:      row.FinishedAt,
		Cause:   endpoints.CauseFinish,
		Version: row.Version,
	}
	return withDecision(r, pg.OrZero(row.NextRunAt), pg.OrZero(row.NextSource), row.NextSteps)
}

// withDecision adds the stored decision to a record.
func withDecision(r endpoints.Recorded, at time.Time, source string, steps json.RawMessage) (endpoints.Recorded, error) {
	r.Due = endpoints.Due{At: at, Source: governor.Source(source)}
	r.Decision = governor.Decision{At: at, Source: governor.Source(source)}
	var err error
	r.Decision.Steps, err = stepsOf(steps, r.Decision)
	return r, err
}

// stepsOf decodes a stored trace. NULL stands for a trace with the baseline as its only step.
func stepsOf(raw json.RawMessage, d governor.Decision) ([]governor.Step, error) {
	if raw == nil {
		return []governor.Step{{
			Rule: governor.Rule(d.Source),
			At:   d.At,
			Why:  "the baseline, and no other rule applied",
		}}, nil
	}
	var steps []governor.Step
	if err := json.Unmarshal(raw, &steps); err != nil {
		return nil, fmt.Errorf("reading a stored trace: %w", err)
	}
	return steps, nil
}

// OneRow returns the error of a statement, or an error if it did not change exactly one row.
func OneRow(rows int64, err error, act string, id endpoints.ID) error {
	if err != nil {
		return fmt.Errorf("%s endpoint %s: %w", act, id, err)
	}
	if rows != 1 {
		return fmt.Errorf("%s endpoint %s changed %d rows instead of one", act, id, rows)
	}
	return nil
}
