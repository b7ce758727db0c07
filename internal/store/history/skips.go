package history

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/endpoints"
	"rubato/internal/runs"
	"rubato/internal/store/pg"
)

// AddSkips adds the missed due times that a change or a finish found.
func (h *Records) AddSkips(e *endpoints.Endpoint, now time.Time) {
	for _, s := range e.Unrecorded {
		h.Add(skippedRun(e, s, now), e.Version, e.State.FailureCount, nil)
	}
}

// skippedRun is the row of missed due times. Its ID is that of the last one, which is recent, so
// that its history partition exists and its retention is that of other runs of its time. It has
// values for the instants and the worker, because older programs read them from every row.
func skippedRun(e *endpoints.Endpoint, s endpoints.Skip, now time.Time) runs.Run {
	return runs.Run{
		ID:           runs.NewID(s.To, e.ID, 0, 0),
		EndpointID:   e.ID,
		TenantID:     e.TenantID,
		ScheduledFor: s.To,
		Source:       string(s.Source),
		ClaimedAt:    now,
		StartedAt:    now,
		FinishedAt:   now,
		Outcome:      runs.Outcome{Status: runs.Skipped, Reason: runs.Reason(s.Reason)},
		Skipped: &runs.Skips{
			From:  s.From,
			To:    s.To,
			Count: s.Count,
		},
	}
}

// RecordSkips inserts the missed due times that a change found.
func RecordSkips(ctx context.Context, tx pgx.Tx, db *pg.DB, now time.Time, e *endpoints.Endpoint) error {
	if len(e.Unrecorded) == 0 {
		return nil
	}
	var h Records
	h.AddSkips(e, now)
	return pg.Pipeline(ctx, tx, h.Writes(ctx, db)...)
}

// SkipDays returns the days of history of the missed due times that a change found; a nil endpoint
// has none.
func SkipDays(e *endpoints.Endpoint) []time.Time {
	if e == nil {
		return nil
	}
	return DaysOf(e.Unrecorded)
}

// DaysOf returns the days of history that skips fall on.
func DaysOf(list []endpoints.Skip) []time.Time {
	days := make([]time.Time, len(list))
	for i, s := range list {
		days[i] = pg.DayOf(s.To)
	}
	return days
}
