package auth

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// taker returns what acquires for a tenant: nil is one too many.
func taker(q *Quota) func(tenant byte) func() {
	return func(tenant byte) func() {
		release, ok := q.Acquire([16]byte{tenant})
		if !ok {
			return nil
		}
		return release
	}
}

func TestATenantTakesNoMoreThanItsLimitOrThanThereIs(t *testing.T) {
	t.Parallel()
	q := NewQuota(QuotaLimits{PerTenant: 2, All: 6, Reserved: 1})
	take := taker(q)
	first := take(1)
	require.NotNil(t, first)
	require.NotNil(t, take(1))
	require.Nil(t, take(1), "a third of one tenant")
	for tenant := byte(2); tenant < 6; tenant++ {
		require.NotNil(t, take(tenant))
	}
	require.Nil(t, take(6), "a seventh of all")

	first()
	require.NotNil(t, take(6), "what is given back can be taken")
	require.Len(t, q.tenants, 6)
	q.release([16]byte{6})
	require.Len(t, q.tenants, 5, "tenants that hold nothing are forgotten")
}

// TestTenantsThatWereFirstCannotTakeTheSecondHalf has greedy tenants first, each as often as it
// likes, and then those that come later.
func TestTenantsThatWereFirstCannotTakeTheSecondHalf(t *testing.T) {
	t.Parallel()
	take := taker(NewQuota(QuotaLimits{PerTenant: 50, All: 200, Reserved: 5}))
	got := map[byte]int{}
	for tenant := byte(1); tenant <= 40; tenant++ {
		for range 1000 {
			if take(tenant) != nil {
				got[tenant]++
			}
		}
	}
	require.Equal(t, 50, got[1])
	require.Equal(t, 50, got[2])
	for tenant := byte(3); tenant <= 22; tenant++ {
		require.Equal(t, 5, got[tenant], "tenant %d", tenant)
	}
	require.Zero(t, got[23])
}
