package history

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"rubato/internal/runs"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// eventDetail is the content of a run_events row beside its time and kind.
type eventDetail struct {
	Author     string      `json:"author,omitempty"`
	Why        string      `json:"why,omitempty"`
	WorkerID   *uuid.UUID  `json:"workerId,omitempty"`
	ClaimToken int64       `json:"claimToken,omitempty"`
	Status     runs.Status `json:"status,omitempty"`
	ReasonCode runs.Reason `json:"reasonCode,omitempty"`
	StatusCode int         `json:"statusCode,omitempty"`
}

// AddEvent stores an event of a run. A zero At means now.
func AddEvent(ctx context.Context, tx pgx.Tx, db *pg.DB, run runs.Run, e runs.Event) error {
	d := eventDetail{
		Author:     pg.Storable(e.Author),
		Why:        pg.Storable(e.Why),
		ClaimToken: e.ClaimToken,
		Status:     e.Status,
		ReasonCode: e.Reason,
		StatusCode: e.StatusCode,
	}
	if e.WorkerID != [16]byte{} {
		d.WorkerID = new(uuid.UUID(e.WorkerID))
	}
	detail, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("encoding the event %s of run %s: %w", e.Kind, run.ID, err)
	}
	at := db.Now()
	if !e.At.IsZero() {
		at = &e.At
	}
	err = db.Q.RunEventInsert(ctx, tx, dbsqlc.RunEventInsertParams{
		RunID:        run.ID,
		ScheduledFor: run.ScheduledFor,
		At:           at,
		Kind:         string(e.Kind),
		Detail:       detail,
	})
	if err != nil {
		return fmt.Errorf("recording the event %s of run %s: %w", e.Kind, run.ID, err)
	}
	return nil
}

// Events implements runs.Reader.
func (s *Runs) Events(ctx context.Context, tenant [16]byte, id runs.ID) (story []runs.Event, err error) {
	err = s.db.Snapshot(ctx, func(tx pgx.Tx) error {
		run, err := s.get(ctx, tx, tenant, id)
		if err != nil {
			return err
		}
		rows, err := s.db.Q.RunEventList(ctx, tx, dbsqlc.RunEventListParams{
			RunID:        id,
			ScheduledFor: run.ScheduledFor,
			MaxRows:      runs.MaxEvents,
		})
		if err != nil {
			return fmt.Errorf("reading the events of run %s: %w", id, err)
		}
		kept := make([]runs.Event, len(rows))
		for i, row := range rows {
			if kept[i], err = eventOf(row); err != nil {
				return fmt.Errorf("reading the events of run %s: %w", id, err)
			}
		}
		story = runs.Timeline(run, kept)
		return nil
	})
	return story, err
}

func eventOf(row *dbsqlc.RunEventListRow) (runs.Event, error) {
	var d eventDetail
	if err := json.Unmarshal(row.Detail, &d); err != nil {
		return runs.Event{}, fmt.Errorf("the detail of the event %s at %s: %w", row.Kind, row.At.Format(time.RFC3339Nano), err)
	}
	return runs.Event{
		At:         row.At,
		Kind:       runs.EventKind(row.Kind),
		Author:     d.Author,
		Why:        d.Why,
		ClaimToken: d.ClaimToken,
		WorkerID:   pg.OrZero(d.WorkerID),
		Status:     d.Status,
		Reason:     d.ReasonCode,
		StatusCode: d.StatusCode,
	}, nil
}
