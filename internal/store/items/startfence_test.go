package items_test

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
	keystore "rubato/internal/store/keys"
	"rubato/internal/store/storetest"
	"rubato/internal/waittest"
	"rubato/internal/zombie"
)

// gate holds every transaction that starts a run at its commit, until open is called.
func (b *bundle) gate(t *testing.T) (open func()) {
	t.Helper()
	b.Exec(t, `CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN PERFORM pg_advisory_xact_lock_shared(7001, 2); RETURN NULL; END $$`)
	b.Exec(t, `CREATE CONSTRAINT TRIGGER gate AFTER UPDATE ON schedules DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
		WHEN (OLD.run_id IS NULL AND NEW.run_id IS NOT NULL) EXECUTE FUNCTION gate()`)
	tx, err := b.Pool.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	_, err = tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock(7001, 2)")
	require.NoError(t, err)
	return func() { require.NoError(t, tx.Rollback(t.Context())) }
}

// starting starts claims, and returns once they have done everything but commit.
func (b *bundle) starting(t *testing.T, by storetest.Worker, list []dispatch.Start) (done chan error) {
	t.Helper()
	done = make(chan error, 1)
	go func() {
		started, err := b.Executions.Start(context.WithoutCancel(t.Context()), dispatch.Starting{Worker: by, List: list, LockTTL: time.Minute})
		if err == nil && len(started) != len(list) {
			err = fmt.Errorf("%d of %d started", len(started), len(list))
		}
		done <- err
	}()
	waittest.Until(t, func() bool {
		return storetest.Query[int](t, b.Bundle, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND classid = 7001 AND objid = 2
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`) == 1
	}, "the starts should come to their commit")
	return done
}

// TestAChangeOfAnyEndpointOfABatchWaitsForItsCommit holds a real batch of starts just before its
// commit. A pause of each of its endpoints waits for it, and then finds the run in flight; the
// pause of another endpoint does not wait.
func TestAChangeOfAnyEndpointOfABatchWaitsForItsCommit(t *testing.T) {
	t.Parallel()
	const batch = 8 // As many as the pool has connections, and some to spare.
	b := setup(t)
	for range batch {
		b.Register(t, nil)
	}
	claimed := b.Claim(t, storetest.Worker{1}, storetest.Horizon)
	require.Len(t, claimed, batch)
	other := b.Register(t, nil).ID
	open := b.gate(t)
	started := b.starting(t, storetest.Worker{1}, storetest.StartsOf(claimed))

	_, err := b.Service.Pause(t.Context(), storetest.Tenant, other, endpoints.PauseRequest{})
	require.NoError(t, err, "nobody starts this one")
	var pauses errgroup.Group
	for _, c := range claimed {
		pauses.Go(func() error {
			e, err := b.Service.Pause(t.Context(), storetest.Tenant, c.EndpointID, endpoints.PauseRequest{})
			if err == nil && e.State.Running == nil {
				err = fmt.Errorf("the pause of %s does not know of its run", e.ID)
			}
			return err
		})
	}
	b.AwaitRowWaits(t, batch)
	open()

	require.NoError(t, <-started)
	require.NoError(t, pauses.Wait())
	require.Equal(t, batch, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM live_runs"))
	require.Equal(t, batch+1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM schedules WHERE paused_until IS NOT NULL"))
}

// TestReplanWaitsForStartInFlight holds a start just before its commit, and lets everything begin
// that revokes claims.
func TestReplanWaitsForStartInFlight(t *testing.T) {
	t.Parallel()
	for name, act := range map[string]func(b *bundle, c claims.Claim) error{
		"Pause": func(b *bundle, c claims.Claim) error {
			_, err := b.Service.Pause(context.Background(), storetest.Tenant, c.EndpointID, endpoints.PauseRequest{})
			return err
		},
		"BulkEdit": func(b *bundle, c claims.Claim) error {
			u := storetest.Wanted("", func(s *endpoints.Spec) { s.Name = "renamed" })
			u.ID = c.EndpointID
			_, err := b.Bulk().Upsert(context.Background(), storetest.Tenant, []endpoints.Upsert{u}, endpoints.Mode{})
			return err
		},
		"Release": func(b *bundle, c claims.Claim) error {
			_, err := b.Claims.Release(context.Background(), storetest.Worker{1}, []claims.Claim{c})
			return err
		},
		"TakeOver": func(b *bundle, _ claims.Claim) error {
			_, err := b.Sweeps.TakeOver(context.Background(), zombie.TakeOverFilter{For: -time.Hour, Reach: 24 * time.Hour})
			return err
		},
		"FreeStuck": func(b *bundle, _ claims.Claim) error {
			_, err := b.Sweeps.FreeStuck(context.Background(), -time.Hour, 10) // Stuck before its lock is over.
			return err
		},
		"SyncVersion": func(b *bundle, c claims.Claim) error {
			c.Version += 7 // No row has this version.
			_, err := b.Executions.Targets(context.Background(), []claims.Claim{c})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.Beat(t, storetest.Worker{1}, "active", time.Now())
			e := b.Register(t, nil)
			c := b.ClaimOne(t, storetest.Worker{1})
			open := b.gate(t)
			started := b.starting(t, storetest.Worker{1}, storetest.StartsOf([]claims.Claim{c}))
			done := make(chan error, 1)
			go func() { done <- act(b, c) }()
			b.AwaitRowWaits(t, 1)
			open()
			require.NoError(t, <-started)
			require.NoError(t, <-done)
			require.Equal(t, c.Token, storetest.Query[int64](t, b.Bundle, "SELECT claim_token FROM schedules"), "the run under way keeps its token")
			require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM live_runs WHERE endpoint_id = $1", [16]byte(e.ID)))
		})
	}
}

// TestAStartWaitsForAChangeOfAnyOfItsEndpoints is the other way around: a change is under way, and
// the batch has others before and after.
func TestAStartWaitsForAChangeOfAnyOfItsEndpoints(t *testing.T) {
	t.Parallel()
	const batch = 12
	for _, i := range []int{0, batch / 2, batch - 1} {
		b := setup(t)
		for range batch {
			b.Register(t, nil)
		}
		claimed := b.Claim(t, storetest.Worker{1}, storetest.Horizon)
		c := claimed[i]
		tx := b.InFlight(t)
		_, err := tx.Exec(t.Context(), "UPDATE schedules SET claim_token = claim_token + 1, claimed_by = NULL, claimed_at = NULL WHERE endpoint_id = $1", c.EndpointID)
		require.NoError(t, err)
		started := make(chan []dispatch.Started, 1)
		go func() {
			list, err := b.Executions.Start(context.WithoutCancel(t.Context()), dispatch.Starting{Worker: storetest.Worker{1}, List: storetest.StartsOf(claimed), LockTTL: time.Minute})
			if err != nil {
				t.Error(err)
			}
			started <- list
		}()
		b.AwaitRowWaits(t, 1)
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

// TestSecretsOfOneTenantWaitForItsStartsAlone: neither starts without secrets nor those of another
// tenant hold a change of secrets up.
func TestSecretsOfOneTenantWaitForItsStartsAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Register(t, nil)
	_ = b.Claim(t, storetest.Worker{1}, storetest.Horizon)
	b.HoldSecrets(t, [16]byte{15: 2})

	_, _, err := secrets.NewService(keystore.NewSecrets(b.DB), storetest.Sealing(t, "k1")).
		Put(t.Context(), storetest.Tenant, secrets.Request{Name: "token", Value: secrets.NewText(storetest.Canary)})
	require.NoError(t, err)
	require.NoError(t, secrets.NewService(keystore.NewSecrets(b.DB), storetest.Sealing(t, "k1")).Delete(t.Context(), storetest.Tenant, "token", false))
}
