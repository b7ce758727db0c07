package claims_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
)

var big, small = [16]byte{0xb}, [16]byte{0x5}

// backlog is a store with two tenants: one with an endless backlog of due endpoints, the other with
// one endpoint.
func backlog() *fakeStore {
	return &fakeStore{tenants: [][16]byte{big, small}, claim: func(_ context.Context, r claims.Request) ([]claims.Claim, error) {
		return make([]claims.Claim, r.Limit), nil
	}}
}

// TestClaimsUseFairSharesUnderBacklog makes room for one more claim after the first one was full of
// due endpoints.
func TestClaimsUseFairSharesUnderBacklog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, taker := backlog(), &fakeReceiver{room: 10, horizon: 8 * time.Second}
		whole := store.claim
		store.claim = func(ctx context.Context, r claims.Request) ([]claims.Claim, error) {
			if len(r.Tenants) > 0 {
				taker.has(0)
			}
			return whole(ctx, r)
		}
		_, stop := runClaimer(t, store, taker)
		synctest.Wait()
		defer stop()

		require.Len(t, store.requests, 2)
		require.Empty(t, store.requests[0].Tenants, "as long as nothing is known to be left, it takes the oldest")
		require.Equal(t, claims.Request{
			Worker: me, Limit: 10, Horizon: time.Second, LockTTL: ttl, Tenants: [][16]byte{big, small}, Share: 5,
			Until: store.at[0].Add(ttl / 4),
		}, store.requests[1])
	})
}

// TestOneTenantAloneIsNotRanked: with a backlog of one tenant every claim takes the oldest due
// endpoints, and the due tenants are rarely looked up.
func TestOneTenantAloneIsNotRanked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, taker := backlog(), &fakeReceiver{room: 10}
		store.tenants = store.tenants[:1]
		whole := store.claim
		store.claim = func(ctx context.Context, r claims.Request) ([]claims.Claim, error) {
			time.Sleep(10 * time.Millisecond)
			return whole(ctx, r)
		}
		_, stop := runClaimer(t, store, taker)
		time.Sleep(10 * time.Second)
		stop()
		for _, r := range store.requests {
			require.Empty(t, r.Tenants)
		}
		require.InDelta(t, 1000, len(store.requests), 10)
		require.InDelta(t, 40, len(store.looks), 2)
	})
}

// TestClaimsAheadOfTimeAreNoBacklog ends every batch with an endpoint that is not due yet, so no
// due endpoint is left behind.
func TestClaimsAheadOfTimeAreNoBacklog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, taker := backlog(), &fakeReceiver{room: 10}
		store.claim = func(_ context.Context, r claims.Request) ([]claims.Claim, error) {
			list := make([]claims.Claim, r.Limit)
			list[3].PlannedAt = time.Now().Add(time.Second)
			time.Sleep(10 * time.Millisecond)
			return list, nil
		}
		_, stop := runClaimer(t, store, taker)
		time.Sleep(time.Second)
		stop()
		require.Empty(t, store.looks)
	})
}

// TestAFullQueueClaimsOnlyUnderservedTenants fills the queue of a worker with claims of one tenant.
func TestAFullQueueClaimsOnlyUnderservedTenants(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := backlog()
		taker := &fakeReceiver{room: 0, wants: map[[16]byte]bool{small: true}}
		store.claim = func(_ context.Context, r claims.Request) ([]claims.Claim, error) {
			if len(r.Tenants) > 0 {
				return make([]claims.Claim, 1), nil
			}
			return nil, nil
		}
		store.tenants = [][16]byte{big}
		_, stop := runClaimer(t, store, taker)
		synctest.Wait()
		require.Len(t, store.requests, 1)
		require.Zero(t, store.requests[0].Limit, "nobody is wanted: it asks for the time")

		store.mu.Lock()
		store.tenants = [][16]byte{big, small}
		store.mu.Unlock()
		time.Sleep(300 * time.Millisecond) // Less than a poll.
		stop()
		require.Len(t, store.requests, 2)
		require.Equal(t, [][16]byte{small}, store.requests[1].Tenants)
		require.Equal(t, 4, store.requests[1].Share)
		require.Equal(t, 4, store.requests[1].Limit)
	})
}

// TestUnfilledSharesEndAtOnce: a tenant without due endpoints keeps no share. The first
// shares take the one endpoint of a second tenant, and later claims leave no room for it.
func TestUnfilledSharesEndAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, taker := backlog(), &fakeReceiver{room: 10}
		store.claim = func(_ context.Context, r claims.Request) ([]claims.Claim, error) {
			time.Sleep(30 * time.Millisecond)
			if len(r.Tenants) == 0 {
				return make([]claims.Claim, r.Limit), nil
			}
			store.mu.Lock()
			defer store.mu.Unlock()
			store.tenants = [][16]byte{big}
			return make([]claims.Claim, r.Share+1), nil
		}
		_, stop := runClaimer(t, store, taker)
		time.Sleep(3 * time.Second)
		stop()
		ranked := 0
		for _, r := range store.requests {
			if len(r.Tenants) > 0 {
				ranked++
			}
		}
		require.Equal(t, 1, ranked, "of %d claims", len(store.requests))
	})
}

// TestManyTenantsNeverAskForMoreThanFits has more tenants than room.
func TestManyTenantsNeverAskForMoreThanFits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, taker := backlog(), &fakeReceiver{room: 10}
		for n := range byte(200) {
			store.tenants = append(store.tenants, [16]byte{1, n})
		}
		store.claim = func(_ context.Context, r claims.Request) ([]claims.Claim, error) {
			time.Sleep(10 * time.Millisecond)
			return make([]claims.Claim, r.Limit), nil
		}
		_, stop := runClaimer(t, store, taker)
		time.Sleep(10 * time.Second)
		stop()
		served := map[[16]byte]bool{}
		for _, r := range store.requests {
			require.Equal(t, 10, r.Limit)
			require.LessOrEqual(t, len(r.Tenants)*r.Share, 10)
			for _, tenant := range r.Tenants {
				served[tenant] = true
			}
		}
		require.Len(t, served, 202, "everybody gets a turn")
	})
}
