package items_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/store/dbsqlc"
	keystore "rubato/internal/store/keys"
	"rubato/internal/store/pg"
	"rubato/internal/store/storetest"
)

// tenantsOf counts claims by tenant.
func (b *bundle) tenantsOf(t *testing.T, list []claims.Claim) map[[16]byte]int {
	t.Helper()
	counts := map[[16]byte]int{}
	for _, c := range list {
		counts[storetest.Query[[16]byte](t, b.Bundle, "SELECT tenant_id FROM endpoints WHERE id = $1", c.EndpointID)]++
	}
	return counts
}

func (b *bundle) claimShares(t *testing.T, by storetest.Worker, share int, tenants ...[16]byte) []claims.Claim {
	t.Helper()
	list, _, err := b.Claims.ClaimDue(t.Context(), claims.Request{
		Worker: by, Limit: 1000, LockTTL: time.Minute, Tenants: tenants, Share: share,
	})
	require.NoError(t, err)
	return list
}

func TestAClaimTakesTheOldestOfEachTenantThatIsNamed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	b.Fill(t, 500, now.Add(-500*time.Second))
	one := b.FillTenant(t, "one", 20, now.Add(-3*time.Second)) // Four are due: at -3, -2, -1 and 0 s.
	two := b.FillTenant(t, "two", 1, now.Add(time.Second))

	require.Equal(t, map[[16]byte]int{keystore.DefaultTenant: 5, one: 4}, b.tenantsOf(t, b.claimShares(t, storetest.Worker{1}, 5, keystore.DefaultTenant, one, two)),
		"each its share, less where less is due")
	again := b.claimShares(t, storetest.Worker{2}, 2, keystore.DefaultTenant, one)
	require.Equal(t, map[[16]byte]int{keystore.DefaultTenant: 2}, b.tenantsOf(t, again), "what is claimed is nobody else's")
	for _, c := range again {
		require.WithinRange(t, c.PlannedAt, now.Add(-495*time.Second), now.Add(-494*time.Second), "the oldest that are left")
		require.Equal(t, int64(1), c.Token)
		require.True(t, c.LockedUntil.After(now))
		require.False(t, c.Expired)
	}
	require.Empty(t, b.claimShares(t, storetest.Worker{1}, 5, [16]byte{1}), "nobody's")
	require.Equal(t, map[[16]byte]int{keystore.DefaultTenant: 10}, b.tenantsOf(t, b.ClaimUpTo(t, storetest.Worker{1}, 10, 0)), "without names it is the oldest of all")
}

func TestDueTenantsAreThoseWithSomethingToClaim(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	b.Fill(t, 3, now.Add(-10*time.Second))
	one := b.FillTenant(t, "one", 1, now)
	two := b.FillTenant(t, "two", 1, now.Add(time.Second))
	b.FillTenant(t, "later", 1, now.Add(2*time.Second))
	due := func(horizon time.Duration) [][16]byte {
		list, err := b.Claims.DueTenants(t.Context(), horizon, claims.TagSets{})
		require.NoError(t, err)
		return list
	}

	require.ElementsMatch(t, [][16]byte{keystore.DefaultTenant, one}, due(0))
	require.ElementsMatch(t, [][16]byte{keystore.DefaultTenant, one, two}, due(time.Second))
	require.Len(t, b.claimShares(t, storetest.Worker{1}, 3, keystore.DefaultTenant), 3)
	require.ElementsMatch(t, [][16]byte{one}, due(0), "what is claimed is not to be had")
}

// TestSharesReadTheHeadsOfTheirTenants looks at the plans: of one tenant ten thousand endpoints are
// due, and the planner knows it, or knows nothing.
func TestSharesReadTheHeadsOfTheirTenants(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]string{"NeverAnalyzed": "SELECT 1", "Analyzed": "ANALYZE schedules, endpoints, tenants"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.Exec(t, "ALTER TABLE schedules SET (autovacuum_enabled = off)")
			now := storetest.Noon()
			b.Fill(t, 10_000, now.Add(-10_000*time.Second))
			one := b.FillTenant(t, "one", 1, now)
			b.Exec(t, prepare)
			for statement, ask := range map[string]pg.Statement{
				"claim": func(q dbsqlc.DBTX) error {
					_, err := dbsqlc.New().ScheduleClaimShares(t.Context(), q, dbsqlc.ScheduleClaimSharesParams{
						WorkerID: [16]byte{1}, LockTtlMs: 60_000, Now: &now, Share: 100, TenantIds: [][16]byte{keystore.DefaultTenant, one},
					})
					return err
				},
				"survey": func(q dbsqlc.DBTX) error {
					_, err := dbsqlc.New().ScheduleDueTenants(t.Context(), q, dbsqlc.ScheduleDueTenantsParams{Now: &now, TagSetIds: []int32{0}, Priorities: []int16{1}, Yields: []bool{false}})
					return err
				},
			} {
				plan, err := storetest.Explain(t.Context(), b.DB, ask)
				require.NoError(t, err)
				require.Contains(t, plan, "schedules_tenant_due", statement)
				require.NotRegexp(t, `schedules_due|Seq Scan on schedules|Sort Key: s`, plan, statement)
				require.Regexp(t, `Index Cond: \(\(ROW\(tenant_id, due_at\) >= ROW.*ROW\(tenant_id, due_at\) <= ROW`, plan, statement+": it must begin and end at a tenant")
			}
		})
	}
}

// TestScheduleTenantIsSetByTrigger writes a schedule as a program of the release before does, and
// as the API does.
func TestScheduleTenantIsSetByTrigger(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.Register(t, nil)
	tenantOf := func() [16]byte {
		return storetest.Query[[16]byte](t, b.Bundle, "SELECT tenant_id FROM schedules WHERE endpoint_id = $1", e.ID)
	}
	require.Equal(t, keystore.DefaultTenant, tenantOf())

	other := uuid.New()
	b.Exec(t, "INSERT INTO tenants (id, name) VALUES ($1, 'other')", other)
	b.Exec(t, "UPDATE endpoints SET tenant_id = $1", other)
	columns := "endpoint_id, due_at, planned_at, slot, claim_token, version, lock_ms, attempt, source, failure_count"
	b.Exec(t, fmt.Sprintf("CREATE TABLE moved AS SELECT %s FROM schedules", columns))
	b.Exec(t, "DELETE FROM schedules")
	b.Exec(t, fmt.Sprintf("INSERT INTO schedules (%s) SELECT * FROM moved", columns))
	require.Equal(t, [16]byte(other), tenantOf())
}
