package items_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/endpoints"
	"rubato/internal/store/dbsqlc"
	keystore "rubato/internal/store/keys"
	"rubato/internal/store/storetest"
)

func TestAClaimTakesTheOldestDueWithinTheHorizon(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	b.Fill(t, 30, now.Add(-9*time.Second))                       // due from -9 s to +20 s
	for _, method := range []string{"indexscan", "bitmapscan"} { // The order must not be a gift of the index.
		b.Exec(t, "DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || current_database() || ' SET enable_"+method+" = off'; END $$")
	}
	b.Exec(t, "UPDATE schedules SET due_at = due_at WHERE due_at < $1", now) // The oldest now lie last in the table.
	b = open(t, b.URL)
	b.At(now)
	sorted := func(list []claims.Claim) []time.Duration {
		var due []time.Duration
		for _, c := range list {
			due = append(due, c.PlannedAt.Sub(now)/time.Second)
		}
		slices.Sort(due)
		return due
	}

	require.Equal(t, []time.Duration{-9, -8, -7, -6}, sorted(b.ClaimUpTo(t, storetest.Worker{1}, 4, storetest.Horizon)), "a limit takes the oldest")
	require.Equal(t, []time.Duration{-5, -4, -3, -2, -1, 0}, sorted(b.Claim(t, storetest.Worker{1}, 0)), "no horizon takes what is due, to the instant")
	require.Equal(t, []time.Duration{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, sorted(b.Claim(t, storetest.Worker{1}, storetest.Horizon)))
	require.Empty(t, b.Claim(t, storetest.Worker{2}, storetest.Horizon))
	require.Empty(t, b.ClaimUpTo(t, storetest.Worker{2}, 0, time.Hour))
}

// TestAClaimNeverTakesMoreThanItsLimit forbids the planner everything but nested loops, under which
// a limit inside IN (...) is evaluated again for every row.
func TestAClaimNeverTakesMoreThanItsLimit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	b.Fill(t, 200, now.Add(-300*time.Second))
	for _, method := range []string{"hashjoin", "mergejoin", "material", "sort", "hashagg"} {
		b.Exec(t, "DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || current_database() || ' SET enable_"+method+" = off'; END $$")
	}
	b = open(t, b.URL) // Only sessions from now on have the settings.
	b.At(now)
	taken := 0
	for limit := 1; taken < 200; limit++ {
		list := b.ClaimUpTo(t, storetest.Worker{1}, limit, storetest.Horizon)
		require.Len(t, list, min(limit, 200-taken))
		taken += len(list)
	}
}

func TestAClaimHoldsUntilItsLockIsOver(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		limit time.Duration // of the execution
		ahead time.Duration // from the claim to the due time
		lock  time.Duration // after the later of the two
	}{
		{"ExecutionLimitAndSlack", 10 * time.Second, 0, 15 * time.Second},
		{"AtMostTheLockTTL", 10 * time.Minute, 0, time.Minute},
		{"CountedFromTheDueTime", 10 * time.Second, 8 * time.Second, 15 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			now := b.At(storetest.Noon())
			b.Register(t, func(s *endpoints.Spec) { s.MaxExecutionTime, s.StartAt = tc.limit, now.Add(tc.ahead) })
			c := b.ClaimOne(t, storetest.Worker{1})
			end := now.Add(tc.ahead + tc.lock)
			require.Equal(t, end, c.LockedUntil)
			b.At(end.Add(-time.Millisecond))
			require.Empty(t, b.Claim(t, storetest.Worker{2}, storetest.Horizon), "the horizon does not reach into a lock")
			b.At(end)
			again := b.ClaimOne(t, storetest.Worker{2})
			require.Equal(t, c.Token+1, again.Token)
			require.Equal(t, c.Slot, again.Slot, "the due time survives its claims")
			require.Equal(t, c.PlannedAt, again.PlannedAt)
		})
	}
}

func TestAnEndpointWithALiveRunIsNotClaimed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	b.Register(t, nil)
	b.StartOne(t, storetest.Worker{1})
	for _, later := range []time.Duration{0, time.Minute, time.Hour, 300 * 24 * time.Hour} {
		b.At(now.Add(later))
		require.Empty(t, b.Claim(t, storetest.Worker{2}, storetest.Horizon), "after %s", later)
	}
}

func TestAReleasedClaimIsClaimableAtOnceAtItsOwnTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	b.Register(t, func(s *endpoints.Spec) { s.StartAt = now.Add(5 * time.Second) })
	c := b.ClaimOne(t, storetest.Worker{1})
	n, err := b.Claims.Release(t.Context(), storetest.Worker{1}, []claims.Claim{c})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Empty(t, b.Claim(t, storetest.Worker{2}, 4*time.Second))
	again := b.ClaimOne(t, storetest.Worker{2})
	require.Equal(t, c.PlannedAt, again.PlannedAt)
	require.Empty(t, b.Start(t, storetest.Worker{1}, c))
}

// TestClaimFromInstantOmitsEarlierRows has an endpoint given back behind the instant from which on
// another worker claims: the claim after it, which begins at the bottom, finds it.
func TestClaimFromInstantOmitsEarlierRows(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	old := b.Register(t, nil)
	held := b.ClaimOne(t, storetest.Worker{1})
	b.At(now.Add(30 * time.Second))
	recent := b.Register(t, nil)
	n, err := b.Claims.Release(t.Context(), storetest.Worker{1}, []claims.Claim{held})
	require.NoError(t, err)
	require.Equal(t, 1, n)

	above := claims.Request{Worker: storetest.Worker{2}, Limit: 10, Horizon: storetest.Horizon, LockTTL: time.Minute, From: now.Add(30 * time.Second)}
	list, _, err := b.Claims.ClaimDue(t.Context(), above)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.EqualValues(t, recent.ID, list[0].EndpointID, "what comes due at that very instant is not before it")
	list = b.Claim(t, storetest.Worker{2}, storetest.Horizon)
	require.Len(t, list, 1)
	require.EqualValues(t, old.ID, list[0].EndpointID)
}

func TestEmptyClaimReturnsDatabaseTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	_, told, err := b.Claims.ClaimDue(t.Context(), claims.Request{Worker: storetest.Worker{1}, Limit: 10, Horizon: storetest.Horizon, LockTTL: time.Minute})
	require.NoError(t, err)
	require.Equal(t, now, told)
}

// TestAClaimThatIsCarriedOutTooLateTakesNothing: a claim that the database executes after the
// worker has given up takes nothing. Otherwise no worker would know of the claims, and none could
// take them until their locks end.
func TestAClaimThatIsCarriedOutTooLateTakesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	b.Register(t, func(s *endpoints.Spec) { s.StartAt = now })
	oldest := claims.Request{Worker: storetest.Worker{1}, Limit: 10, Horizon: storetest.Horizon, LockTTL: time.Minute, Until: now.Add(-time.Millisecond)}
	shares := oldest
	shares.Tenants, shares.Share = [][16]byte{keystore.DefaultTenant}, 1
	for _, late := range []claims.Request{oldest, shares} {
		list, _, err := b.Claims.ClaimDue(t.Context(), late)
		require.NoError(t, err)
		require.Empty(t, list)
	}
	shares.Until = now
	list, _, err := b.Claims.ClaimDue(t.Context(), shares)
	require.NoError(t, err)
	require.Len(t, list, 1)
	_, err = b.Claims.Release(t.Context(), storetest.Worker{1}, list)
	require.NoError(t, err)
	oldest.Until = now
	list, _, err = b.Claims.ClaimDue(t.Context(), oldest)
	require.NoError(t, err)
	require.Len(t, list, 1)
}

// TestWorkersNeverShareAClaim lets many claim from one herd at once: each endpoint comes to exactly
// one of them.
func TestWorkersNeverShareAClaim(t *testing.T) {
	t.Parallel()
	const herd, workers, batch = 2000, 6, 37
	b := setup(t)
	b.Fill(t, herd, time.Now().Add(-herd*time.Second))
	var (
		mu    sync.Mutex
		owner = map[[16]byte]storetest.Worker{}
		all   sync.WaitGroup
	)
	for n := range workers {
		me := storetest.Worker{byte(n + 1)}
		all.Go(func() {
			for {
				list, _, err := b.Claims.ClaimDue(t.Context(), claims.Request{Worker: me, Limit: batch, Horizon: storetest.Horizon, LockTTL: time.Minute})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, c := range list {
					if other, taken := owner[c.EndpointID]; taken {
						t.Errorf("%x was claimed by %x and by %x", c.EndpointID, other, me)
					}
					owner[c.EndpointID] = me
				}
				over := len(owner) == herd
				mu.Unlock()
				if len(list) > batch {
					t.Errorf("a claim of %d took %d", batch, len(list))
				}
				if over || len(list) == 0 {
					return
				}
			}
		})
	}
	all.Wait()
	// Rows that were locked by the others when one claim found nothing.
	for _, c := range b.Claim(t, storetest.Worker{99}, storetest.Horizon) {
		owner[c.EndpointID] = storetest.Worker{99}
	}
	require.Len(t, owner, herd)
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT max(claim_token)::int FROM schedules"))
}

// TestTheClaimWalksTheDueIndex looks at the plan of the statement that is shipped, on a table of
// real size and on an empty one: a plan that was made while there was nothing to claim stays.
func TestTheClaimWalksTheDueIndex(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := storetest.Noon()
	walks := func(when string) {
		plan, err := storetest.Explain(t.Context(), b.DB, func(q dbsqlc.DBTX) error {
			_, err := dbsqlc.New().ScheduleClaimDue(t.Context(), q, dbsqlc.ScheduleClaimDueParams{
				WorkerID: [16]byte{1}, LockTtlMs: 60_000, Now: &now, HorizonMs: 10_000, MaxRows: 200,
				TagSetIds: []int32{0, 0, 3}, Priorities: []int16{0, 1, 0}, Yields: make([]bool, 3),
			})
			return err
		})
		require.NoError(t, err)
		require.Contains(t, plan, "Index Scan using schedules_waiting on schedules", when)
		require.Contains(t, plan, "Index Scan using schedules_held on schedules", when)
		require.NotRegexp(t, `Sort Key: s|Seq Scan on|Bitmap`, plan, when)
	}
	walks("never analyzed")
	b.Exec(t, "ANALYZE schedules, endpoints")
	walks("analyzed when empty")
	b.Fill(t, 20_000, now.Add(-time.Hour))
	b.Exec(t, "ANALYZE schedules, endpoints")
	walks("full")
}
