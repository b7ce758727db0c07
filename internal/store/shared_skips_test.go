package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/runs"
)

// skips lists the records of skipped due times, the newest first.
func (b *bundle) skips(t *testing.T, id endpoints.ID) []runs.Run {
	t.Helper()
	list, err := b.runs.List(t.Context(), runs.Filter{TenantID: tenant.TenantID, EndpointID: id, Statuses: []runs.Status{runs.Skipped}, Limit: 100})
	require.NoError(t, err)
	return list
}

// record is what a record of skipped due times of an interval of a minute is read as.
func record(e *endpoints.Endpoint, reason runs.Reason, from, to, at time.Time, count int64) runs.Run {
	return runs.Run{
		ID: runs.NewID(to, e.ID, 0, 0), EndpointID: e.ID, TenantID: e.TenantID, ScheduledFor: to, Source: "baseline-interval", FinishedAt: at,
		Outcome: runs.Outcome{Status: runs.Skipped, Reason: reason}, Skipped: &runs.Skips{From: from, To: to, Count: count},
	}
}
