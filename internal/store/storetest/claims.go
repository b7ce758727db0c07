package storetest

import (
	"testing"
	"time"
)

// Fill inserts n endpoints by SQL, each with a schedule that is due a second later than the one
// before, the first at an instant.
func (b *Bundle) Fill(t *testing.T, n int, first time.Time) {
	t.Helper()
	b.Register(t, nil)
	b.Exec(t, `INSERT INTO endpoints (id, tenant_id, version, created_at, updated_at, spec)
		SELECT gen_random_uuid(), tenant_id, version, created_at, updated_at, spec FROM endpoints, generate_series(2, $1)`, n)
	b.Exec(t, `DELETE FROM schedules`)
	b.Exec(t, `INSERT INTO schedules (endpoint_id, due_at, planned_at, slot, claim_token, version, lock_ms, attempt, source, failure_count)
		SELECT id, at, at, at, 0, 1, 65000, 1, 'baseline-interval', 0
		FROM (SELECT id, $1::timestamptz + (row_number() OVER () - 1) * interval '1 s' AS at FROM endpoints) e`, first)
}
