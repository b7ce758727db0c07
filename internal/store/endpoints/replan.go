package endpoints

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/auditlog"
	"rubato/internal/endpoints"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/history"
	"rubato/internal/store/pg"
)

// Replan puts the planned due time of an endpoint in force and revokes every claim.
func (db *States) Replan(ctx context.Context, tx dbsqlc.DBTX, e *endpoints.Endpoint) error {
	s := e.State
	rows, err := db.Q.ScheduleReplan(ctx, tx, dbsqlc.ScheduleReplanParams{
		EndpointID:     e.ID,
		PlannedAt:      s.Due.At,
		Slot:           s.Due.Slot,
		Attempt:        int16(s.Due.Attempt),
		Source:         string(s.Due.Source),
		InfraAttempt:   int16(s.Due.InfraAttempt),
		Version:        e.Version,
		LockMs:         lockMs(e.Spec),
		Tags:           tagsOf(e.Spec),
		Priority:       int16(e.Priority()),
		FailureCount:   int32(s.FailureCount),
		RunsDone:       int32(s.RunsDone),
		EndedAt:        pg.Optional(s.EndedAt),
		Anchor:         pg.Optional(s.Anchor),
		LastSlot:       pg.Optional(s.LastSlot),
		LastCallAt:     pg.Optional(s.LastCall),
		PausedUntil:    pg.Optional(s.PausedUntil),
		PauseReason:    pg.OptionalText(s.PauseReason),
		ManualAt:       pg.Optional(ManualAt(&s)),
		RetryAfter:     pg.Optional(s.RetryAfter),
		TargetNext:     pg.Optional(s.TargetNext),
		FreshUntil:     pg.Optional(s.FreshUntil),
		AccountedUntil: pg.Optional(s.AccountedUntil),
		Hinted:         s.Hinted(),
	})
	return OneRow(rows, err, "replanning", e.ID)
}

// Record stores a change of an endpoint during a run that holds its row.
func (db *States) Record(ctx context.Context, tx dbsqlc.DBTX, e *endpoints.Endpoint) error {
	rows, err := db.Q.ScheduleRecord(ctx, tx, dbsqlc.ScheduleRecordParams{
		EndpointID:     e.ID,
		Version:        e.Version,
		LockMs:         lockMs(e.Spec),
		Tags:           tagsOf(e.Spec),
		FailureCount:   int32(e.State.FailureCount),
		PausedUntil:    pg.Optional(e.State.PausedUntil),
		PauseReason:    pg.OptionalText(e.State.PauseReason),
		ManualAt:       pg.Optional(ManualAt(&e.State)),
		RetryAfter:     pg.Optional(e.State.RetryAfter),
		TargetNext:     pg.Optional(e.State.TargetNext),
		FreshUntil:     pg.Optional(e.State.FreshUntil),
		AccountedUntil: pg.Optional(e.State.AccountedUntil),
		Hinted:         e.State.Hinted(),
	})
	return OneRow(rows, err, "recording a change", e.ID)
}

// encoded returns the trace of a decision and its input in the form of the ledger.
func encoded(e *endpoints.Endpoint, r endpoints.Recorded) (steps, input json.RawMessage, err error) {
	if steps, err = json.Marshal(r.Decision.Steps); err != nil {
		return nil, nil, fmt.Errorf("encoding the decision for endpoint %s: %w", e.ID, err)
	}
	if input, err = json.Marshal(history.LedgerInput(r.Input)); err != nil {
		return nil, nil, fmt.Errorf("encoding the input of the decision for endpoint %s: %w", e.ID, err)
	}
	return steps, input, nil
}

// decisionRow returns the ledger row of a decision.
func decisionRow(e *endpoints.Endpoint, r endpoints.Recorded) (dbsqlc.DecisionInsertParams, error) {
	steps, input, err := encoded(e, r)
	return dbsqlc.DecisionInsertParams{
		EndpointID: e.ID,
		DecidedAt:  r.At,
		Cause:      string(r.Cause),
		Author:     r.Author,
		Version:    r.Version,
		NextRunAt:  r.Due.At,
		NextSource: string(r.Due.Source),
		NextSteps:  steps,
		Input:      input,
		ClaimToken: e.State.Token,
		Basis:      history.ChangeBasis(&r),
	}, err
}

// Decided writes a decision into the ledger.
func (db *States) Decided(ctx context.Context, tx dbsqlc.DBTX, e *endpoints.Endpoint, r endpoints.Recorded) error {
	row, err := decisionRow(e, r)
	if err != nil {
		return err
	}
	if err := db.Q.DecisionInsert(ctx, tx, row); err != nil {
		return fmt.Errorf("recording the decision for endpoint %s: %w", e.ID, err)
	}
	return nil
}

// Quarantine pauses an endpoint that cannot be used, with the reason, so that it does not affect
// others. It sends the events and notices of an ordinary pause.
func (db *States) Quarantine(ctx context.Context, tx pgx.Tx, e *endpoints.Endpoint, now time.Time, fault error) error {
	before := *e
	planned := e.Quarantine(now, fault)
	if err := db.Withdrawn(ctx, tx, e, now); err != nil {
		return err
	}
	if err := db.Replan(ctx, tx, e); err != nil {
		return err
	}
	if err := db.Decided(ctx, tx, e, planned); err != nil {
		return err
	}
	by := auditlog.Actor{TenantID: e.TenantID, Name: string(endpoints.CauseQuarantine)}
	return db.PausedAlone(ctx, tx, now, Pause{
		Before: &before,
		After:  e,
		Act:    auditlog.Act{By: by, Action: auditlog.Pause},
	})
}
