package storetest

import (
	"testing"
	"time"

	"github.com/google/uuid"
)

// FillTenant makes a tenant with n endpoints beside those that are there, each due a second later
// than the one before.
func (b *Bundle) FillTenant(t *testing.T, name string, n int, first time.Time) [16]byte {
	t.Helper()
	id := uuid.New()
	b.Exec(t, `INSERT INTO tenants (id, name) VALUES ($1, $2)`, id, name)
	b.Exec(t, `WITH made AS (
			INSERT INTO endpoints (id, tenant_id, version, created_at, updated_at, spec)
			SELECT gen_random_uuid(), $1::uuid, version, created_at, updated_at, spec - 'key' FROM (SELECT * FROM endpoints LIMIT 1) e, generate_series(1, $2) RETURNING id, tenant_id)
		INSERT INTO schedules (endpoint_id, tenant_id, due_at, planned_at, slot, claim_token, version, lock_ms, attempt, source, failure_count)
		SELECT id, tenant_id, at, at, at, 0, 1, 65000, 1, 'baseline-interval', 0
		FROM (SELECT id, tenant_id, $3::timestamptz + (row_number() OVER () - 1) * interval '1 s' AS at FROM made) e`, id, n, first)
	return id
}
