package store_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/runs"
	"rubato/internal/secrets"
	"rubato/internal/store"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/zombie"
)

// inFlight returns a transaction that holds what a batch of starts of endpoints holds.
func (b *bundle) inFlight(t *testing.T, ids ...[16]byte) pgx.Tx {
	t.Helper()
	list := make([]dispatch.Start, len(ids))
	for i, id := range ids {
		list[i].Claim.EndpointID = id
	}
	return b.share(t, list)
}

// inFlightWithSecrets returns one that holds what the start of a run with secrets holds, of an endpoint that nobody knows.
func (b *bundle) inFlightWithSecrets(t *testing.T) pgx.Tx {
	t.Helper()
	return b.share(t, []dispatch.Start{{TenantID: tenant.TenantID, Secrets: true}})
}

func (b *bundle) share(t *testing.T, list []dispatch.Start) pgx.Tx {
	t.Helper()
	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	require.NoError(t, dbsqlc.New().StartsShare(t.Context(), tx, store.ShardsOfStarts(list)))
	return tx
}

// awaitExcluded returns once so many transactions of the database wait for starts.
func (b *bundle) awaitExcluded(t *testing.T, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return b.excluded(t) == n }, 30*time.Second, 5*time.Millisecond, "%d should wait for starts", n)
}

func (b *bundle) excluded(t *testing.T) int {
	t.Helper()
	return query[int](t, b, `SELECT count(DISTINCT pid) FROM pg_locks
		WHERE locktype = 'advisory' AND NOT granted AND mode = 'ExclusiveLock' AND classid::bigint = hashtext('rubato.starts')::bigint & 4294967295
		  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
}

// gate holds every transaction that starts a run at its commit, until open is called.
func (b *bundle) gate(t *testing.T) (open func()) {
	t.Helper()
	b.exec(t, `CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN PERFORM pg_advisory_xact_lock_shared(7001, 2); RETURN NULL; END $$`)
	b.exec(t, `CREATE CONSTRAINT TRIGGER gate AFTER INSERT ON live_runs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION gate()`)
	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	_, err = tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock(7001, 2)")
	require.NoError(t, err)
	return func() { require.NoError(t, tx.Rollback(t.Context())) }
}

// starting starts claims, and returns once they have done everything but commit.
func (b *bundle) starting(t *testing.T, by worker, list []dispatch.Start) (done chan error) {
	t.Helper()
	done = make(chan error, 1)
	go func() {
		started, err := b.executions.Start(context.WithoutCancel(t.Context()), dispatch.Starting{Worker: by, List: list, LockTTL: time.Minute})
		if err == nil && len(started) != len(list) {
			err = fmt.Errorf("%d of %d started", len(started), len(list))
		}
		done <- err
	}()
	require.Eventually(t, func() bool {
		return query[int](t, b, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND classid = 7001 AND objid = 2
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`) == 1
	}, 30*time.Second, 5*time.Millisecond, "the starts should come to their commit")
	return done
}

// TestAChangeOfAnyEndpointOfABatchWaitsForItsCommit holds a real batch of starts just before its commit. A pause of each of its endpoints
// waits for it, and then finds the run live; that of an endpoint of another shard does not wait.
func TestAChangeOfAnyEndpointOfABatchWaitsForItsCommit(t *testing.T) {
	t.Parallel()
	const batch = 8 // As many as the pool has connections, and some to spare.
	b := setup(t)
	for range batch {
		b.register(t, nil)
	}
	claimed := b.claim(t, worker{1}, horizon)
	require.Len(t, claimed, batch)
	other := b.registerElsewhere(t, claimed)
	open := b.gate(t)
	started := b.starting(t, worker{1}, startsOf(claimed))

	_, err := b.service.Pause(t.Context(), tenant, other, endpoints.PauseRequest{})
	require.NoError(t, err, "nobody starts this one")
	var pauses errgroup.Group
	for _, c := range claimed {
		pauses.Go(func() error {
			e, err := b.service.Pause(t.Context(), tenant, c.EndpointID, endpoints.PauseRequest{})
			if err == nil && e.State.Running == nil {
				err = fmt.Errorf("the pause of %s does not know of its run", e.ID)
			}
			return err
		})
	}
	b.awaitExcluded(t, batch)
	open()

	require.NoError(t, <-started)
	require.NoError(t, pauses.Wait())
	require.Equal(t, batch, query[int](t, b, "SELECT count(*) FROM live_runs"))
	require.Equal(t, batch+1, query[int](t, b, "SELECT count(*) FROM schedules WHERE paused_until IS NOT NULL"))
}

// registerElsewhere registers an endpoint that shares its shard with none of the claims.
func (b *bundle) registerElsewhere(t *testing.T, list []claims.Claim) endpoints.ID {
	t.Helper()
	var taken []int32
	for _, c := range list {
		taken = append(taken, store.ShardsOf(c.EndpointID)...)
	}
	for {
		e := b.register(t, nil)
		if !slices.Contains(taken, store.ShardsOf(e.ID)[0]) {
			return e.ID
		}
	}
}

// TestWhateverReplansWaitsForAStartInFlight holds a start just before its commit, and lets everything begin that revokes claims.
func TestWhateverReplansWaitsForAStartInFlight(t *testing.T) {
	t.Parallel()
	for name, act := range map[string]func(b *bundle, c claims.Claim) error{
		"Pause": func(b *bundle, c claims.Claim) error {
			_, err := b.service.Pause(context.Background(), tenant, c.EndpointID, endpoints.PauseRequest{})
			return err
		},
		"BulkEdit": func(b *bundle, c claims.Claim) error {
			u := wanted("", func(s *endpoints.Spec) { s.Name = "renamed" })
			u.ID = c.EndpointID
			_, err := b.bulk().Upsert(context.Background(), tenant, []endpoints.Upsert{u}, endpoints.Mode{})
			return err
		},
		"Release": func(b *bundle, c claims.Claim) error {
			_, err := b.claims.Release(context.Background(), worker{1}, []claims.Claim{c})
			return err
		},
		"TakeOver": func(b *bundle, _ claims.Claim) error {
			_, err := b.sweeps.TakeOver(context.Background(), zombie.Silence{For: -time.Hour, Reach: 24 * time.Hour})
			return err
		},
		"FreeStuck": func(b *bundle, _ claims.Claim) error {
			_, err := b.sweeps.FreeStuck(context.Background(), -time.Hour, 10) // Stuck before its lock is over.
			return err
		},
		"SyncVersion": func(b *bundle, c claims.Claim) error {
			c.Version += 7 // Nobody finds this one.
			_, err := b.executions.Targets(context.Background(), []claims.Claim{c})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.beat(t, worker{1}, "active", time.Now())
			e := b.register(t, nil)
			c := b.claimOne(t, worker{1})
			open := b.gate(t)
			started := b.starting(t, worker{1}, startsOf([]claims.Claim{c}))
			done := make(chan error, 1)
			go func() { done <- act(b, c) }()
			b.awaitExcluded(t, 1)
			open()
			require.NoError(t, <-started)
			require.NoError(t, <-done)
			require.Equal(t, c.Token, query[int64](t, b, "SELECT claim_token FROM schedules"), "the run under way keeps its token")
			require.Equal(t, 1, query[int](t, b, "SELECT count(*) FROM live_runs WHERE endpoint_id = $1", [16]byte(e.ID)))
		})
	}
}

// TestAStartWaitsForAChangeOfAnyOfItsEndpoints is the other way around: a change is under way, and the batch has others before and after.
func TestAStartWaitsForAChangeOfAnyOfItsEndpoints(t *testing.T) {
	t.Parallel()
	const batch = 12
	b := setup(t)
	for range batch {
		b.register(t, nil)
	}
	claimed := b.claim(t, worker{1}, horizon)
	for _, c := range []claims.Claim{claimed[0], claimed[batch/2], claimed[batch-1]} {
		tx, err := b.pool.Begin(t.Context())
		require.NoError(t, err)
		require.NoError(t, dbsqlc.New().StartsExclude(t.Context(), tx, store.ShardsOf(c.EndpointID)))
		_, err = tx.Exec(t.Context(), "UPDATE schedules SET claim_token = claim_token + 1, claimed_by = NULL, claimed_at = NULL, due_at = planned_at + interval '1 day' WHERE endpoint_id = $1", c.EndpointID)
		require.NoError(t, err)
		started := make(chan []dispatch.Started, 1)
		go func() {
			list, err := b.executions.Start(context.WithoutCancel(t.Context()), dispatch.Starting{Worker: worker{1}, List: startsOf(claimed), LockTTL: time.Minute})
			if err != nil {
				t.Error(err)
			}
			started <- list
		}()
		b.awaitLockWait(t)
		require.NoError(t, tx.Commit(t.Context()))
		require.NotContains(t, idsOf(<-started), runs.NewID(c.Slot, c.EndpointID, c.Attempt), "it was revoked before the start went on")
	}
}

func idsOf(list []dispatch.Started) []runs.ID {
	ids := make([]runs.ID, len(list))
	for i, s := range list {
		ids[i] = s.RunID
	}
	return ids
}

// TestSecretsOfOneTenantWaitForItsStartsAlone: neither starts without secrets nor those of another tenant hold a change of secrets up.
func TestSecretsOfOneTenantWaitForItsStartsAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.register(t, nil)
	b.inFlight(t, e.ID)
	b.share(t, []dispatch.Start{{TenantID: [16]byte{15: 2}, Secrets: true}})

	_, _, err := secrets.NewService(store.NewSecrets(b.db), sealing(t, "k1")).
		Put(t.Context(), tenant, secrets.Request{Name: "token", Value: secrets.NewText(canary)})
	require.NoError(t, err)
	require.NoError(t, secrets.NewService(store.NewSecrets(b.db), sealing(t, "k1")).Delete(t.Context(), tenant, "token", false))
}

func TestShardsComeAscendingAndOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOf(rapid.Custom(func(t *rapid.T) dispatch.Start {
			var s dispatch.Start
			copy(s.Claim.EndpointID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "endpoint"))
			copy(s.TenantID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "tenant"))
			s.Secrets = rapid.Bool().Draw(t, "secrets")
			return s
		})).Draw(t, "starts")
		got := store.ShardsOfStarts(list)
		if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
			t.Fatalf("%v is not ascending, each once", got)
		}
		for _, s := range list {
			if own := store.ShardsOf(s.Claim.EndpointID); len(own) != 1 || !slices.Contains(got, own[0]) || own[0] > 255 {
				t.Fatalf("%v lacks the shard %v of an endpoint", got, own)
			}
			if s.Secrets && !slices.ContainsFunc(got, func(n int32) bool { return n > 255 }) {
				t.Fatalf("%v has no shard of a tenant", got)
			}
		}
	})
}
