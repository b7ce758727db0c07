package zombie_test

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"rubato/internal/devpg/devpgtest"
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/items"
	"rubato/internal/store/pg"
	"rubato/internal/waittest"
	"rubato/internal/zombie"
)

// candidate is a sweeper with a database connection of its own.
type candidate struct {
	*sweeping
	*zombie.Sweeper
	tries *leadershipCounter
}

func (c *candidate) healthy(t *testing.T) error {
	t.Helper()
	checks := c.Checks()
	require.Len(t, checks, 1)
	require.Equal(t, "sweeps", checks[0].Name)
	return checks[0].Ask(t.Context())
}

func run(t *testing.T, over zombie.Store) *candidate {
	t.Helper()
	registry := prometheus.NewRegistry()
	s := zombie.New(zombie.Config{
		Store: over, Interval: interval, StaleAfter: stale, Settle: settle, Horizon: 10 * time.Second, LockTTL: time.Minute,
		RunRetention: 30 * 24 * time.Hour, BodyRetention: 7 * 24 * time.Hour,
		Logger: slog.New(slog.DiscardHandler), Registerer: registry,
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); s.Run(ctx) }()
	c := &candidate{sweeping: &sweeping{registry, sync.OnceFunc(func() { cancel(); <-ended })}, Sweeper: s}
	t.Cleanup(c.stop)
	return c
}

// TestOneOfThreeSweepersLeads asks the metric of each, and ends the leader, and the one that
// follows it.
func TestOneOfThreeSweepersLeads(t *testing.T) {
	t.Parallel()
	url := devpgtest.NewDatabase(t, devpgtest.Template{Key: pg.SchemaKey(), Migrate: func(ctx context.Context, url string) error {
		_, err := pg.MigrateUp(ctx, url)
		return err
	}})
	var left []*candidate
	for range 3 {
		db, err := pg.Open(t.Context(), pg.Config{URL: url})
		require.NoError(t, err)
		t.Cleanup(db.Close)
		trying := &leadershipCounter{Store: items.NewSweeps(endpointstore.NewStates(db, 0))}
		left = append(left, run(t, trying))
		left[len(left)-1].tries = trying
	}
	for len(left) > 0 {
		leader := -1
		waittest.Until(t, func() bool {
			leader = -1
			for i, c := range left {
				if c.value(t, "rubato_zombie_leader", "") == 1 {
					require.Negative(t, leader, "one at a time")
					leader = i
				}
			}
			return leader >= 0
		})
		for i, c := range left {
			if i == leader {
				continue
			}
			before := c.tries.n.Load()
			waittest.Until(t, func() bool {
				require.Zero(t, c.value(t, "rubato_zombie_leader", ""))
				require.InDelta(t, 1, left[leader].value(t, "rubato_zombie_leader", ""), 0)
				return c.tries.n.Load() > before+2
			})
			require.NoError(t, c.healthy(t), "it is no fault not to lead")
		}
		require.NoError(t, left[leader].healthy(t))
		left[leader].stop()
		left = append(left[:leader], left[leader+1:]...)
	}
}

// leadershipCounter counts how often a sweeper tried to lead.
type leadershipCounter struct {
	zombie.Store
	n atomic.Int32
}

func (s *leadershipCounter) Lead(ctx context.Context, lead func(context.Context) error) (bool, error) {
	s.n.Add(1)
	return s.Store.Lead(ctx, lead)
}

// TestASweepThatIgnoresItsEndTurnsHealthRed has a sweep of the leader hang, deaf to its context.
// Another sweeper gets the lead, and the one that hangs is not healthy until it is done.
func TestASweepThatIgnoresItsEndTurnsHealthRed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var hang atomic.Bool
		release := make(chan struct{})
		var turn sync.Mutex // the database's lock
		locked := func(s *fakeStore) zombie.Store { return &exclusive{s, &turn} }
		sick := &fakeStore{began: time.Now(), stuck: func() (int, error) {
			if hang.Load() {
				<-release
			}
			return 0, nil
		}}
		first := run(t, locked(sick))
		time.Sleep(time.Second)
		second := run(t, locked(&fakeStore{began: time.Now()}))
		time.Sleep(24 * time.Second)
		require.InDelta(t, 1, first.value(t, "rubato_zombie_leader", ""), 0)
		require.Zero(t, second.value(t, "rubato_zombie_leader", ""))
		hang.Store(true)
		time.Sleep(64 * time.Second) // The pass began 5 s after the last sleep.
		require.NoError(t, first.healthy(t))
		time.Sleep(3 * time.Second)
		require.EqualError(t, first.healthy(t), "a sweeper pass has been running for over 1m0s")
		require.Zero(t, first.value(t, "rubato_zombie_leader", ""))
		require.InDelta(t, 1, second.value(t, "rubato_zombie_leader", ""), 0)
		require.NoError(t, second.healthy(t))
		hang.Store(false)
		close(release)
		time.Sleep(3 * time.Second)
		require.NoError(t, first.healthy(t))
		second.stop()
		time.Sleep(3 * time.Second)
		require.InDelta(t, 1, first.value(t, "rubato_zombie_leader", ""), 0, "it may lead again")
		first.stop()
	})
}

// exclusive is a fake store that shares its lock with others.
type exclusive struct {
	*fakeStore
	turn *sync.Mutex
}

func (e *exclusive) Lead(ctx context.Context, lead func(context.Context) error) (bool, error) {
	if !e.turn.TryLock() {
		return false, nil
	}
	defer e.turn.Unlock()
	return e.fakeStore.Lead(ctx, lead)
}

// TestLeaderWithoutPassesTurnsHealthRed has the database's clock never answer, while the
// lock is held.
func TestLeaderWithoutPassesTurnsHealthRed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := run(t, &clockless{&fakeStore{began: time.Now()}})
		time.Sleep(59 * time.Second)
		require.NoError(t, c.healthy(t))
		time.Sleep(2 * time.Second)
		require.EqualError(t, c.healthy(t), "this worker leads the sweeps, but no pass has ended for 1m0s")
		c.stop()
	})
}

type clockless struct{ *fakeStore }

func (clockless) Clock(ctx context.Context) (time.Time, error) {
	<-ctx.Done()
	return time.Time{}, ctx.Err()
}
