package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/endpoints"
	"rubato/internal/runs"
)

// addSkips takes in the due times that a change or a finish found to have passed without a run.
func (h *history) addSkips(e *endpoints.Endpoint, now time.Time) {
	for _, s := range e.Unrecorded {
		h.add(skippedRun(e, s, now), e.Version, e.State.FailureCount, nil)
	}
}

// skippedRun is the row of due times that passed without a run. It stands under the last of them: that is always recent, so the row
// has a day of history to lie in, and is kept for as long as any other of its time. Programs of before the first such row read instants
// and a worker from every row, so it has values for them.
func skippedRun(e *endpoints.Endpoint, s endpoints.Skip, now time.Time) runs.Run {
	return runs.Run{
		ID: runs.NewID(s.To, e.ID, 0, 0), EndpointID: e.ID, TenantID: e.TenantID, ScheduledFor: s.To, Source: string(s.Source),
		ClaimedAt: now, StartedAt: now, FinishedAt: now,
		Outcome: runs.Outcome{Status: runs.Skipped, Reason: runs.Reason(s.Reason)},
		Skipped: &runs.Skips{From: s.From, To: s.To, Count: s.Count},
	}
}

// recordSkips inserts what a change found to have passed without a run.
func (db *DB) recordSkips(ctx context.Context, tx pgx.Tx, now time.Time, e *endpoints.Endpoint) error {
	if len(e.Unrecorded) == 0 {
		return nil
	}
	var h history
	h.addSkips(e, now)
	return pipeline(ctx, tx, h.writes(ctx, db)...)
}

// skipDays returns the days of history that the due times which a change found to have passed belong to; nil is no endpoint.
func skipDays(e *endpoints.Endpoint) []time.Time {
	if e == nil {
		return nil
	}
	return daysOf(e.Unrecorded)
}

func daysOf(list []endpoints.Skip) []time.Time {
	days := make([]time.Time, len(list))
	for i, s := range list {
		days[i] = dayOf(s.To)
	}
	return days
}
