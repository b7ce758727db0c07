package pg_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/errs"
	endpointstore "rubato/internal/store/endpoints"
	keystore "rubato/internal/store/keys"
	"rubato/internal/store/pg"
	"rubato/internal/store/storetest"
	"rubato/internal/waittest"
)

const (
	soon = 50 * time.Millisecond
	ages = 10 * time.Minute // longer than any test
)

// impatient returns a service over a database of its own pools, which wait as given.
func impatient(t *testing.T, b *bundle, conn, lock time.Duration) (*pg.DB, *endpoints.Service) {
	t.Helper()
	db, err := pg.OpenImpatient(t.Context(), b.URL, 2, conn, lock)
	require.NoError(t, err)
	t.Cleanup(db.Close)
	return db, endpoints.NewService(endpointstore.NewStore(endpointstore.NewStates(db, 0)), storetest.AnyTarget{})
}

// isBusy requires the error of a database that is there and does not keep up.
func isBusy(t *testing.T, err error, what string) {
	t.Helper()
	told, ok := errors.AsType[*errs.Error](err)
	require.True(t, ok, "%s: %v", what, err)
	require.Equal(t, errs.Unavailable, told.Code, what)
	require.Equal(t, "database_busy", told.Reason, "%s: %v", what, err)
	require.NotContains(t, told.Message, "cannot be reached", what)
}

// TestLockWaitOfAChangeIsBounded holds the row lock of an endpoint in another session. A change
// fails and has no effect. After the lock ends, the same change succeeds on the same connections.
func TestLockWaitOfAChangeIsBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.Register(t, nil)
	_, service := impatient(t, b, ages, soon)
	rename := func(spec endpoints.Spec) (endpoints.Spec, error) {
		spec.Name = "renamed"
		return spec, nil
	}
	for _, table := range []string{"endpoints WHERE id", "schedules WHERE endpoint_id"} {
		stranger := b.Hold(t, "SELECT FROM "+table+" = $1 FOR UPDATE", e.ID)
		before, _, err := b.Service.Get(t.Context(), storetest.Tenant, e.ID)
		require.NoError(t, err)
		for range 5 { // More often than there are connections: each is good again.
			_, _, err := service.Edit(t.Context(), storetest.Tenant, e.ID, 0, rename)
			isBusy(t, err, table)
			require.ErrorContains(t, err, "nothing was changed, try again")
		}
		after, _, err := b.Service.Get(t.Context(), storetest.Tenant, e.ID)
		require.NoError(t, err)
		require.Equal(t, before, after)
		require.NoError(t, stranger.Rollback(t.Context()))
		_, _, err = service.Edit(t.Context(), storetest.Tenant, e.ID, 0, rename)
		require.NoError(t, err)
	}
}

// TestDurationOfATransactionIsBounded has a database that answers no statement of callers without a
// timeout, such as streams. Each transaction ends, more often than there are connections, and each
// connection works again afterwards.
func TestDurationOfATransactionIsBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.Register(t, nil)
	db, err := pg.OpenHurried(t.Context(), b.URL, 2, 200*time.Millisecond)
	require.NoError(t, err)
	t.Cleanup(db.Close)
	service, sessions := endpoints.NewService(endpointstore.NewStore(endpointstore.NewStates(db, 0)), storetest.AnyTarget{}), keystore.NewConsoleSessions(db)
	asked := map[string]func() error{
		"Read": func() error { _, _, err := service.Get(t.Context(), storetest.Tenant, e.ID); return err },
		"Change": func() error {
			_, _, err := service.Edit(t.Context(), storetest.Tenant, e.ID, 0, func(spec endpoints.Spec) (endpoints.Spec, error) { return spec, nil })
			return err
		},
		"Key":     func() error { _, err := keystore.NewKeys(db).FindKey(t.Context(), [32]byte{1}); return err },
		"Session": func() error { _, err := sessions.Find(t.Context(), [32]byte{1}); return err },
	}
	stranger := b.Hold(t, "LOCK TABLE endpoints, api_keys, console_sessions IN ACCESS EXCLUSIVE MODE")
	for range 3 {
		for name, ask := range asked {
			isBusy(t, ask(), name)
		}
	}
	require.NoError(t, stranger.Rollback(t.Context()))
	for name, ask := range asked { // More than once: a busy machine may take that long.
		waittest.Until(t, func() bool { err := ask(); return err == nil || errs.CodeOf(err) == errs.NotFound }, name)
	}
}

// TestWorkersWaitForLocks requires no bound on the lock waits of workers, because the bound is for
// requests of users.
func TestWorkersWaitForLocks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	db, _ := impatient(t, b, ages, soon)
	asks, works, err := pg.LockTimeouts(t.Context(), db)
	require.NoError(t, err)
	require.Equal(t, "50ms", asks)
	require.Equal(t, "0", works)
}

// TestConnectionWaitIsBounded uses up the pool. A caller gets an error in time, and a canceled
// caller gets another one.
func TestConnectionWaitIsBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.Register(t, nil)
	db, service := impatient(t, b, soon, ages)
	get := func(ctx context.Context) error {
		_, _, err := service.Get(ctx, storetest.Tenant, e.ID)
		return err
	}
	release, err := pg.Occupy(t.Context(), db, 2)
	require.NoError(t, err)
	err = get(t.Context())
	isBusy(t, err, "no connection")
	require.ErrorContains(t, err, "all 2 connections to the database were busy for 50ms, and nothing was changed; try again")
	given, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, get(given), context.Canceled, "who gives up is told nothing of the database")
	release()
	require.NoError(t, get(t.Context()))
}
