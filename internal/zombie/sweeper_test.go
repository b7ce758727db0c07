package zombie_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"rubato/internal/runs"
	"rubato/internal/zombie"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	interval = 10 * time.Second
	stale    = 90 * time.Second
	settle   = 180 * time.Second
)

// fakeStore answers by its fields and keeps what it was asked, with the time since the beginning.
type fakeStore struct {
	away  func() bool                            // the database cannot be reached
	other func() bool                            // another sweeper is at it
	list  func() ([]runs.Run, error)             // what is lost
	end   func(run runs.Run) (bool, error)       // the settlement
	free  func() (int, error)                    // the take-over
	keep  func(ctx context.Context) (int, error) // the history

	mu        sync.Mutex
	began     time.Time
	takeOvers []time.Duration
	lists     []time.Duration
	signals   []zombie.Signal
	histories []time.Duration
	retention zombie.Retention
	limit     int
	silent    time.Duration
	settled   []runs.Run
}

func (s *fakeStore) note(list *[]time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*list = append(*list, time.Since(s.began))
}

func (s *fakeStore) Alone(ctx context.Context, sweep func(context.Context) error) (bool, error) {
	if s.away != nil && s.away() {
		return false, errors.New("away")
	}
	if s.other != nil && s.other() {
		return false, nil
	}
	return true, sweep(ctx)
}

func (s *fakeStore) TakeOver(_ context.Context, silent time.Duration) (int, error) {
	s.note(&s.takeOvers)
	s.silent = silent
	if s.free == nil {
		return 0, nil
	}
	return s.free()
}

func (s *fakeStore) ListLost(_ context.Context, signal zombie.Signal, limit int) ([]runs.Run, error) {
	s.note(&s.lists)
	s.signals, s.limit = append(s.signals, signal), limit
	if s.list == nil {
		return nil, nil
	}
	return s.list()
}

func (s *fakeStore) Settle(_ context.Context, signal zombie.Signal, run runs.Run) (bool, error) {
	if signal != s.signals[len(s.signals)-1] {
		return false, errors.New("settled by another signal than it was listed by")
	}
	s.settled = append(s.settled, run)
	if s.end == nil {
		return true, nil
	}
	return s.end(run)
}

func (s *fakeStore) KeepHistory(ctx context.Context, r zombie.Retention) (int, error) {
	s.note(&s.histories)
	s.retention = r
	if s.keep == nil {
		return 0, nil
	}
	return s.keep(ctx)
}

// sweeping is a running sweeper.
type sweeping struct {
	registry *prometheus.Registry
	stop     func()
}

func sweep(t *testing.T, store zombie.Store, every time.Duration, believe time.Duration) *sweeping {
	t.Helper()
	registry := prometheus.NewRegistry()
	s := zombie.New(zombie.Config{
		Store: store, Interval: every, StaleAfter: stale, Settle: believe, RunRetention: 30 * 24 * time.Hour, BodyRetention: 7 * 24 * time.Hour,
		Logger: slog.New(slog.DiscardHandler), Registerer: registry,
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); s.Run(ctx) }()
	return &sweeping{registry, sync.OnceFunc(func() { cancel(); <-ended })}
}

// value returns a metric, summed over its labels where label is empty.
func (s *sweeping) value(t *testing.T, name, label string) float64 {
	t.Helper()
	families, err := s.registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		sum := 0.0
		for _, m := range f.GetMetric() {
			if label == "" || len(m.GetLabel()) > 0 && m.GetLabel()[0].GetValue() == label {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
		return sum
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// bubble runs a sweeper over a fake store in fake time for a while.
func bubble(t *testing.T, store *fakeStore, long time.Duration, check func(t *testing.T, s *sweeping)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store.began = time.Now()
		s := sweep(t, store, interval, settle)
		time.Sleep(long)
		synctest.Wait()
		s.stop()
		check(t, s)
	})
}

func TestEverySweepHasItsPeriod(t *testing.T) {
	t.Parallel()
	store := &fakeStore{}
	bubble(t, store, 31*time.Second, func(t *testing.T, s *sweeping) {
		sec := time.Second
		require.Equal(t, []time.Duration{10 * sec, 20 * sec, 30 * sec}, store.lists)
		require.Equal(t, []time.Duration{0, 10 * sec, 20 * sec, 30 * sec}, store.histories, "the history is made ready at once")
		require.Len(t, store.takeOvers, 16)
		require.Equal(t, 30*sec, store.takeOvers[15])
		require.Equal(t, 6*sec, store.silent)
		require.Equal(t, 100, store.limit)
		require.Equal(t, zombie.Retention{Runs: 30 * 24 * time.Hour, Bodies: 7 * 24 * time.Hour, DaysAhead: 3}, store.retention)
		require.InDelta(t, 1, s.value(t, "rubato_zombie_leader", ""), 0)
	})
}

// TestSilenceIsBelievedOnlyAfterWatching has an outage in the middle: belief has to be earned again from its end on.
func TestSilenceIsBelievedOnlyAfterWatching(t *testing.T) {
	t.Parallel()
	store := &fakeStore{}
	store.away = func() bool {
		since := time.Since(store.began)
		return since > 299*time.Second && since < 305*time.Second
	}
	bubble(t, store, 600*time.Second, func(t *testing.T, _ *sweeping) {
		for i, at := range store.lists {
			believed := at >= settle && at < 299*time.Second || at >= 306*time.Second+settle
			require.Equal(t, believed, store.signals[i].TrustSilence, "after %s", at)
			require.Equal(t, stale, store.signals[i].StaleAfter)
		}
		require.NotContains(t, store.lists, 300*time.Second)
	})
}

func TestWatchingGoesOnWhileAnotherSweeps(t *testing.T) {
	t.Parallel()
	store := &fakeStore{}
	store.other = func() bool { return time.Since(store.began) < 295*time.Second }
	bubble(t, store, 301*time.Second, func(t *testing.T, _ *sweeping) {
		require.Equal(t, []time.Duration{300 * time.Second}, store.lists, "one sweeps at a time")
		require.True(t, store.signals[0].TrustSilence, "it saw the database all the time")
	})
}

func TestNoSweepKeepsAnotherFromItsWork(t *testing.T) {
	t.Parallel()
	fault := errors.New("fault")
	for name, tc := range map[string]struct {
		store  *fakeStore
		errors map[string]int
		panics float64
	}{
		"TakeOverFails":  {&fakeStore{free: func() (int, error) { return 0, fault }}, map[string]int{"take_over": 16}, 0},
		"TakeOverPanics": {&fakeStore{free: func() (int, error) { panic(fault) }}, nil, 16},
		"ListFails":      {&fakeStore{list: func() ([]runs.Run, error) { return nil, fault }}, map[string]int{"lost": 3}, 0},
		"ListPanics":     {&fakeStore{list: func() ([]runs.Run, error) { panic(fault) }}, nil, 3},
		"HistoryFails":   {&fakeStore{keep: func(context.Context) (int, error) { return 0, fault }}, map[string]int{"history": 4}, 0},
		"HistoryPanics":  {&fakeStore{keep: func(context.Context) (int, error) { panic(fault) }}, nil, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, tc.store, 31*time.Second, func(t *testing.T, s *sweeping) {
				require.Len(t, tc.store.takeOvers, 16)
				require.Len(t, tc.store.lists, 3)
				require.Len(t, tc.store.histories, 4)
				for _, sweep := range []string{"take_over", "lost", "history"} {
					require.InDelta(t, tc.errors[sweep], s.value(t, "rubato_zombie_errors_total", sweep), 0, sweep)
				}
				require.InDelta(t, tc.panics, s.value(t, "rubato_panics_total", ""), 0)
			})
		})
	}
}

func TestARunThatCannotBeSettledKeepsNoOther(t *testing.T) {
	t.Parallel()
	list := []runs.Run{{ClaimToken: 1}, {ClaimToken: 2}, {ClaimToken: 3}, {ClaimToken: 4}}
	store := &fakeStore{
		list: func() ([]runs.Run, error) { return list, nil },
		end: func(run runs.Run) (bool, error) {
			switch run.ClaimToken {
			case 1:
				return false, errors.New("poison")
			case 3:
				return false, nil // A heartbeat came in between.
			default:
				return true, nil
			}
		},
	}
	bubble(t, store, 11*time.Second, func(t *testing.T, s *sweeping) {
		require.Len(t, store.settled, 4)
		for _, run := range store.settled {
			require.Equal(t, runs.Lost, run.Outcome.Status)
			require.Equal(t, runs.WorkerLost, run.Outcome.Reason)
			require.True(t, run.Outcome.MaybeSent, "nobody knows that it was not")
		}
		require.InDelta(t, 2, s.value(t, "rubato_zombie_settled_total", ""), 0)
		require.InDelta(t, 1, s.value(t, "rubato_zombie_errors_total", "lost"), 0)
	})
}

func TestASweepThatHangsIsGivenUp(t *testing.T) {
	t.Parallel()
	store := &fakeStore{keep: func(ctx context.Context) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	}}
	bubble(t, store, 65*time.Second, func(t *testing.T, _ *sweeping) {
		require.GreaterOrEqual(t, len(store.histories), 2)
		require.NotEmpty(t, store.lists)
	})
}

func TestWhatWasTakenOverIsCounted(t *testing.T) {
	t.Parallel()
	store := &fakeStore{free: func() (int, error) { return 2, nil }}
	bubble(t, store, time.Second, func(t *testing.T, s *sweeping) {
		require.InDelta(t, 2, s.value(t, "rubato_claims_stolen_total", ""), 0)
	})
}
