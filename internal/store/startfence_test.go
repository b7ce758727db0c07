package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/runs"
	"rubato/internal/secrets"
	"rubato/internal/store"
	"rubato/internal/waittest"
	"rubato/internal/zombie"
)

// gate holds every transaction that starts a run at its commit, until open is called.
func (b *bundle) gate(t *testing.T) (open func()) {
	t.Helper()
	b.exec(t, `CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN PERFORM pg_advisory_xact_lock_shared(7001, 2); RETURN NULL; END $$`)
	b.exec(t, `CREATE CONSTRAINT TRIGGER gate AFTER UPDATE ON schedules DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
		WHEN (OLD.run_id IS NULL AND NEW.run_id IS NOT NULL) EXECUTE FUNCTION gate()`)
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
	waittest.Until(t, func() bool {
		return query[int](t, b, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND classid = 7001 AND objid = 2
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`) == 1
	}, "the starts should come to their commit")
	return done
}

// TestAChangeOfAnyEndpointOfABatchWaitsForItsCommit holds a real batch of starts just before its commit. A pause of each of its endpoints
// waits for it, and then finds the run in flight; the pause of another endpoint does not wait.
func TestAChangeOfAnyEndpointOfABatchWaitsForItsCommit(t *testing.T) {
	t.Parallel()
	const batch = 8 // As many as the pool has connections, and some to spare.
	b := setup(t)
	for range batch {
		b.register(t, nil)
	}
	claimed := b.claim(t, worker{1}, horizon)
	require.Len(t, claimed, batch)
	other := b.register(t, nil).ID
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
	b.awaitRowWaits(t, batch)
	open()

	require.NoError(t, <-started)
	require.NoError(t, pauses.Wait())
	require.Equal(t, batch, query[int](t, b, "SELECT count(*) FROM live_runs"))
	require.Equal(t, batch+1, query[int](t, b, "SELECT count(*) FROM schedules WHERE paused_until IS NOT NULL"))
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
			_, err := b.sweeps.TakeOver(context.Background(), zombie.TakeOverFilter{For: -time.Hour, Reach: 24 * time.Hour})
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
			b.awaitRowWaits(t, 1)
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
	for _, i := range []int{0, batch / 2, batch - 1} {
		b := setup(t)
		for range batch {
			b.register(t, nil)
		}
		claimed := b.claim(t, worker{1}, horizon)
		c := claimed[i]
		tx := b.inFlight(t)
		_, err := tx.Exec(t.Context(), "UPDATE schedules SET claim_token = claim_token + 1, claimed_by = NULL, claimed_at = NULL WHERE endpoint_id = $1", c.EndpointID)
		require.NoError(t, err)
		started := make(chan []dispatch.Started, 1)
		go func() {
			list, err := b.executions.Start(context.WithoutCancel(t.Context()), dispatch.Starting{Worker: worker{1}, List: startsOf(claimed), LockTTL: time.Minute})
			if err != nil {
				t.Error(err)
			}
			started <- list
		}()
		b.awaitRowWaits(t, 1)
		require.NoError(t, tx.Commit(t.Context()))
		ids := idsOf(<-started)
		require.Len(t, ids, batch-1)
		require.NotContains(t, ids, runs.NewID(c.Slot, c.EndpointID, c.Attempt, c.InfraAttempt), "it was revoked before the start went on")
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
	b.register(t, nil)
	_ = b.claim(t, worker{1}, horizon)
	b.holdSecrets(t, [16]byte{15: 2})

	_, _, err := secrets.NewService(store.NewSecrets(b.db), sealing(t, "k1")).
		Put(t.Context(), tenant, secrets.Request{Name: "token", Value: secrets.NewText(canary)})
	require.NoError(t, err)
	require.NoError(t, secrets.NewService(store.NewSecrets(b.db), sealing(t, "k1")).Delete(t.Context(), tenant, "token", false))
}
