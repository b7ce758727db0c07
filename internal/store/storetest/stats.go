package storetest

import (
	"testing"
	"time"

	"rubato/internal/endpoints"
	"rubato/internal/runs"
)

// Ended adds a finished run to the history. before is the time from its due time to noon.
func (b *Bundle) Ended(t *testing.T, e *endpoints.Endpoint, before time.Duration, status runs.Status, lag, latency time.Duration) {
	t.Helper()
	due, code := Noon().Add(-before), any(200)
	if status == runs.TimedOut || status == runs.Lost || status == runs.Skipped {
		code = nil
	}
	var count any
	attempt := 1
	if status == runs.Skipped {
		attempt, count = 0, 5
	}
	b.Exec(t, "SELECT history_create_day($1::date)", due)
	b.Exec(t, `INSERT INTO runs (id, scheduled_for, endpoint_id, tenant_id, attempt, source, claim_token, worker_id, claimed_at, started_at,
			finished_at, status, reason_code, dns_us, connect_us, tls_us, wait_us, transfer_us, response_bytes, truncated, version, failure_count,
			status_code, skipped_count, skipped_from)
		VALUES ($1, $2, $3, $4, $5, 'baseline-interval', 1, $3, $2, $6, $6, $7, 'x', 1, 2, 3, $8, 0, 0, false, 1, 0, $9, $10, CASE WHEN $7 = 'skipped' THEN $2::timestamptz END)`,
		runs.NewID(due, e.ID, attempt, 0), due, e.ID, e.TenantID, attempt, due.Add(lag), status, latency.Microseconds()-6, code, count)
}
