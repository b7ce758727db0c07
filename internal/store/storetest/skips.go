package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/runs"
)

// Skips lists the records of skipped due times, the newest first.
func (b *Bundle) Skips(t *testing.T, id endpoints.ID) []runs.Run {
	t.Helper()
	list, err := b.Runs.List(t.Context(), runs.Filter{
		TenantID:   Tenant.TenantID,
		EndpointID: id,
		Statuses:   []runs.Status{runs.Skipped},
		Limit:      100,
	})
	require.NoError(t, err)
	return list
}

// Record returns the expected record of skipped due times of an endpoint with a one-minute
// interval.
func Record(e *endpoints.Endpoint, reason runs.Reason, from, to, at time.Time, count int64) runs.Run {
	return runs.Run{
		ID:           runs.NewID(to, e.ID, 0, 0),
		EndpointID:   e.ID,
		TenantID:     e.TenantID,
		ScheduledFor: to,
		Source:       "baseline-interval",
		FinishedAt:   at,
		Outcome:      runs.Outcome{Status: runs.Skipped, Reason: reason},
		Skipped: &runs.Skips{
			From:  from,
			To:    to,
			Count: count,
		},
	}
}
