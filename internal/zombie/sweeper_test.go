package zombie_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"rubato/internal/errs"
	"rubato/internal/runs"
	"rubato/internal/zombie"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	interval = 10 * time.Second
	stale    = 90 * time.Second
	settle   = 180 * time.Second
)

// fakeStore answers from its fields and records requests with the time since the beginning.
type fakeStore struct {
	away   func() bool                            // the database cannot be reached
	other  func() bool                            // another sweeper is at it
	list   func() ([]zombie.Lost, error)          // lost runs within their deadline
	end    func(run runs.Run) (bool, error)       // the settlement
	free   func() (int, error)                    // the take-over
	keep   func(ctx context.Context) (int, error) // the history
	late   func() ([]zombie.Lost, error)          // runs past their deadline
	clamp  func() (int, error)                    // claims with due times too far ahead
	stuck  func() (int, error)                    // claims without a taker
	retire func() (int, error)                    // workers that are gone
	survey zombie.LiveCounts                      // the live runs
	step   func() time.Duration                   // by how much the database's clock was set

	mu        sync.Mutex
	began     time.Time
	takeOvers []time.Duration
	lists     []time.Duration
	signals   []zombie.Signal
	clamps    []time.Duration
	retired   []time.Duration
	passed    [][16]byte // over, by the last search
	histories []time.Duration
	retention zombie.Retention
	limit     int
	silent    zombie.TakeOverFilter
	settled   []runs.Run
}

func (s *fakeStore) note(list *[]time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*list = append(*list, time.Since(s.began))
}

func (s *fakeStore) Lead(ctx context.Context, lead func(context.Context) error) (bool, error) {
	if err := s.lost(); err != nil {
		return false, err
	}
	if s.other != nil && s.other() {
		return false, nil
	}
	leading, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() {
		look := time.NewTicker(500 * time.Millisecond)
		defer look.Stop()
		for {
			select {
			case <-leading.Done():
				return
			case <-look.C:
				if s.lost() != nil || s.other != nil && s.other() {
					cancel()
				}
			}
		}
	})
	return true, lead(leading)
}

func (s *fakeStore) lost() error {
	if s.away != nil && s.away() {
		return errors.New("away")
	}
	return nil
}

func (s *fakeStore) Clock(context.Context) (time.Time, error) {
	if s.away != nil && s.away() {
		return time.Time{}, errors.New("away")
	}
	if s.step == nil {
		return time.Now(), nil
	}
	return time.Now().Add(s.step()), nil
}

func (s *fakeStore) TakeOver(_ context.Context, q zombie.TakeOverFilter) (int, error) {
	s.note(&s.takeOvers)
	s.silent = q
	if s.free == nil {
		return 0, nil
	}
	return s.free()
}

func (s *fakeStore) ListLost(_ context.Context, q zombie.Search) ([]zombie.Lost, error) {
	s.passed = q.Except
	if q.ByDeadline {
		return ask(s.late)
	}
	s.note(&s.lists)
	s.signals, s.limit = append(s.signals, q.Signal), q.Limit
	return ask(s.list)
}

// ask answers by a field, and with nothing where it is not set.
func ask[T any](field func() (T, error)) (none T, err error) {
	if field == nil {
		return none, nil
	}
	return field()
}

func (s *fakeStore) ListExpired(context.Context, [][16]byte, int) ([]zombie.Lost, error) {
	return nil, nil
}

func (s *fakeStore) Expire(context.Context, runs.Run) (bool, error) { return false, nil }

func (s *fakeStore) CountLive(context.Context, time.Duration) (zombie.LiveCounts, error) {
	return s.survey, nil
}

func (s *fakeStore) ClampClaims(context.Context, time.Duration, int) (int, error) {
	s.note(&s.clamps)
	return ask(s.clamp)
}

func (s *fakeStore) MarkLocks(context.Context) error { return nil }

func (s *fakeStore) ClampRuns(context.Context, time.Duration) (int, error) { return 0, nil }

func (s *fakeStore) Unserved(context.Context, time.Duration) ([]zombie.TagSet, error) {
	return nil, nil
}

func (s *fakeStore) SkipUnserved(context.Context, []zombie.TagSet, int) (int, error) { return 0, nil }

func (s *fakeStore) FreeStuck(_ context.Context, over time.Duration, _ int) (int, error) {
	if over != settle {
		return 0, errors.New("a claim is stuck after a settle period")
	}
	return ask(s.stuck)
}

func (s *fakeStore) Retire(context.Context, time.Duration) (int, error) {
	s.note(&s.retired)
	return ask(s.retire)
}

func (s *fakeStore) Settle(_ context.Context, signal zombie.Signal, run runs.Run) (bool, error) {
	if s.late == nil && signal != s.signals[len(s.signals)-1] {
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
		Store: store, Interval: every, StaleAfter: stale, Settle: believe, Horizon: 10 * time.Second, LockTTL: time.Minute, RunRetention: 30 * 24 * time.Hour, BodyRetention: 7 * 24 * time.Hour, AuditRetention: 365 * 24 * time.Hour,
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
	bubble(t, store, 61*time.Second, func(t *testing.T, s *sweeping) {
		sec := time.Second
		require.Equal(t, []time.Duration{10 * sec, 20 * sec, 30 * sec, 40 * sec, 50 * sec, 60 * sec}, store.lists)
		require.Equal(t, []time.Duration{0, 60 * sec}, store.histories, "the history is made ready at once")
		require.Len(t, store.takeOvers, 31)
		require.Equal(t, 60*sec, store.takeOvers[30])
		require.Equal(t, zombie.TakeOverFilter{For: 6 * sec, Reach: 71 * sec}, store.silent)
		require.Equal(t, 100, store.limit)
		require.Equal(t, zombie.Retention{Runs: 30 * 24 * time.Hour, Bodies: 7 * 24 * time.Hour, Audit: 365 * 24 * time.Hour, DaysAhead: 3}, store.retention)
		require.Zero(t, s.value(t, "rubato_zombie_leader", ""), "one that has ended leads no more")
	})
}

// TestSilenceCountsOnlyAfterObservation has an outage in the middle: belief has to be earned again
// from its end on.
func TestSilenceCountsOnlyAfterObservation(t *testing.T) {
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

func TestObservationContinuesWithoutLead(t *testing.T) {
	t.Parallel()
	store := &fakeStore{}
	store.other = func() bool { return time.Since(store.began) < 295*time.Second }
	bubble(t, store, 301*time.Second, func(t *testing.T, _ *sweeping) {
		require.Equal(t, []time.Duration{300 * time.Second}, store.lists, "one sweeps at a time")
		require.True(t, store.signals[0].TrustSilence, "it saw the database all the time")
	})
}

func TestSlowSweepDelaysNoOther(t *testing.T) {
	t.Parallel()
	fault := errors.New("fault")
	for name, tc := range map[string]struct {
		store  *fakeStore
		errors map[string]int
		panics float64
	}{
		"TakeOverFails":  {&fakeStore{free: func() (int, error) { return 0, fault }}, map[string]int{"take_over": 31}, 0},
		"TakeOverPanics": {&fakeStore{free: func() (int, error) { panic(fault) }}, nil, 31},
		"ListFails":      {&fakeStore{list: func() ([]zombie.Lost, error) { return nil, fault }}, map[string]int{"lost": 6}, 0},
		"ListPanics":     {&fakeStore{list: func() ([]zombie.Lost, error) { panic(fault) }}, nil, 6},
		"OverdueFails":   {&fakeStore{late: func() ([]zombie.Lost, error) { return nil, fault }}, map[string]int{"overdue": 6}, 0},
		"OverduePanics":  {&fakeStore{late: func() ([]zombie.Lost, error) { panic(fault) }}, nil, 6},
		"ClampFails":     {&fakeStore{clamp: func() (int, error) { return 0, fault }}, map[string]int{"locks": 6}, 0},
		"StuckFails":     {&fakeStore{stuck: func() (int, error) { return 0, fault }}, map[string]int{"stuck": 6}, 0},
		"HistoryFails":   {&fakeStore{keep: func(context.Context) (int, error) { return 0, fault }}, map[string]int{"history": 2}, 0},
		"HistoryPanics":  {&fakeStore{keep: func(context.Context) (int, error) { panic(fault) }}, nil, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, tc.store, 61*time.Second, func(t *testing.T, s *sweeping) {
				require.Len(t, tc.store.takeOvers, 31)
				require.Len(t, tc.store.lists, 6)
				require.Len(t, tc.store.histories, 2)
				for _, sweep := range []string{"take_over", "locks", "overdue", "lost", "stuck", "workers", "history"} {
					require.InDelta(t, tc.errors[sweep], s.value(t, "rubato_zombie_errors_total", sweep), 0, sweep)
				}
				require.InDelta(t, tc.panics, s.value(t, "rubato_panics_total", ""), 0)
			})
		})
	}
}

func TestUnsettleableRunDelaysNoOther(t *testing.T) {
	t.Parallel()
	var list []zombie.Lost
	for token := range int64(4) {
		list = append(list, zombie.Lost{Run: runs.Run{ID: runs.ID{byte(token + 1)}, ClaimToken: token + 1}, Reason: zombie.Goodbye})
	}
	store := &fakeStore{
		list: func() ([]zombie.Lost, error) { return list, nil },
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
		require.InDelta(t, 2, s.value(t, "rubato_zombie_settled_total", "goodbye"), 0)
		require.InDelta(t, 1, s.value(t, "rubato_zombie_errors_total", "lost"), 0)
	})
}

// TestUnsettleableRunIsQuarantined has a full batch of poison in front of one run that
// can be settled.
func TestUnsettleableRunIsQuarantined(t *testing.T) {
	t.Parallel()
	sound := runs.ID{255}
	settled := time.Duration(0)
	store := &fakeStore{}
	store.list = func() ([]zombie.Lost, error) { // As the database does it: the oldest, without those that are passed over.
		var list []zombie.Lost
		for n := range byte(100) {
			if id := (runs.ID{n, 1}); !slices.Contains(store.passed, [16]byte(id)) {
				list = append(list, zombie.Lost{Run: runs.Run{ID: id}, Reason: zombie.Goodbye})
			}
		}
		if len(list) < 100 && settled == 0 {
			list = append(list, zombie.Lost{Run: runs.Run{ID: sound}, Reason: zombie.Goodbye})
		}
		return list, nil
	}
	store.end = func(run runs.Run) (bool, error) {
		if run.ID == sound {
			settled = time.Since(store.began)
			return true, nil
		}
		return false, errors.New("poison")
	}
	bubble(t, store, 2*time.Minute, func(t *testing.T, s *sweeping) {
		require.Equal(t, 10*time.Second, settled, "in the pass that found the poison")
		require.InDelta(t, 200, s.value(t, "rubato_zombie_errors_total", "lost"), 0, "poison is tried again after a minute")
	})
}

// TestDatabaseOutageQuarantinesNothing ends a sweep at once, and passes nothing over in the
// next.
func TestDatabaseOutageQuarantinesNothing(t *testing.T) {
	t.Parallel()
	store := &fakeStore{
		list: func() ([]zombie.Lost, error) {
			return []zombie.Lost{{Run: runs.Run{ID: runs.ID{1}}, Reason: zombie.Goodbye}, {Run: runs.Run{ID: runs.ID{2}}, Reason: zombie.Goodbye}}, nil
		},
		end: func(runs.Run) (bool, error) { return false, errs.New(errs.Unavailable, "", "the database is away") },
	}
	bubble(t, store, 21*time.Second, func(t *testing.T, _ *sweeping) {
		require.Len(t, store.settled, 2, "one in each of two passes")
		require.Empty(t, store.passed)
	})
}

// TestCanceledSweepQuarantinesNothing takes the sweeper's lock away while a run is settled, as
// a database does that cuts the connection which holds it.
func TestCanceledSweepQuarantinesNothing(t *testing.T) {
	t.Parallel()
	store := &fakeStore{
		list: func() ([]zombie.Lost, error) {
			return []zombie.Lost{{Run: runs.Run{ID: runs.ID{1}}, Reason: zombie.Goodbye}, {Run: runs.Run{ID: runs.ID{2}}, Reason: zombie.Goodbye}}, nil
		},
	}
	synctest.Test(t, func(t *testing.T) {
		store.began = time.Now()
		cutting := &cut{fakeStore: store}
		store.end = func(runs.Run) (bool, error) {
			cutting.now()
			return false, context.Canceled
		}
		s := sweep(t, cutting, interval, settle)
		time.Sleep(21 * time.Second)
		synctest.Wait()
		s.stop()
		require.Len(t, store.settled, 2, "one in each of two passes")
		require.Empty(t, store.passed)
	})
}

// cut is a store that loses the sweeper's lock now.
type cut struct {
	*fakeStore
	now context.CancelFunc
}

func (c *cut) Lead(ctx context.Context, lead func(context.Context) error) (bool, error) {
	lost, cancel := context.WithCancel(ctx)
	defer cancel()
	c.now = cancel
	return c.fakeStore.Lead(lost, lead)
}

// TestMassLossIsSettledInOnePass lists three batches, the last of which is not full.
func TestMassLossIsSettledInOnePass(t *testing.T) {
	t.Parallel()
	left := 250
	store := &fakeStore{}
	store.late = func() ([]zombie.Lost, error) {
		list := make([]zombie.Lost, min(left, 100))
		for i := range list {
			list[i] = zombie.Lost{Run: runs.Run{ID: runs.ID{byte(i), byte(left)}}, Reason: zombie.Deadline}
		}
		left -= len(list)
		return list, nil
	}
	bubble(t, store, 11*time.Second, func(t *testing.T, s *sweeping) {
		require.InDelta(t, 250, s.value(t, "rubato_zombie_settled_total", "deadline"), 0)
	})
}

// TestMassSilenceIsHeldBack lets 60 of 100 runs fall silent at once, in the eyes of a sweeper
// that believes in silence: nothing is settled by silence before that has lasted for a settle
// period.
func TestMassSilenceIsHeldBack(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		survey zombie.LiveCounts
		held   bool
	}{
		"MostOfMany": {zombie.LiveCounts{Live: 100, Silent: 60}, true},
		"AllOfMany":  {zombie.LiveCounts{Live: 21, Silent: 21}, true},
		"HalfOfMany": {zombie.LiveCounts{Live: 100, Silent: 50}, false},
		"AllOfFew":   {zombie.LiveCounts{Live: 20, Silent: 20}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &fakeStore{survey: tc.survey}
			bubble(t, store, 2*settle+30*time.Second, func(t *testing.T, s *sweeping) {
				for i, at := range store.lists {
					believed := at >= settle && (!tc.held || at >= 2*settle)
					require.Equal(t, believed, store.signals[i].TrustSilence, "after %s", at)
					require.Equal(t, 10*settle, store.signals[i].Valve, "which no guard shuts")
				}
				require.Zero(t, s.value(t, "rubato_zombie_held_back_runs", ""), "in the end it is believed")
			})
		})
	}
}

func TestHeldBackRunsAreReported(t *testing.T) {
	t.Parallel()
	store := &fakeStore{survey: zombie.LiveCounts{Live: 100, Silent: 60}}
	bubble(t, store, settle+10*time.Second, func(t *testing.T, s *sweeping) {
		require.InDelta(t, 60, s.value(t, "rubato_zombie_held_back_runs", ""), 0)
	})
}

// TestMassSilenceThatEndsIsForgotten lets the masses be there for a moment, twice: each time the
// wait begins anew.
func TestMassSilenceThatEndsIsForgotten(t *testing.T) {
	t.Parallel()
	store := &fakeStore{survey: zombie.LiveCounts{Live: 100, Silent: 60}}
	store.stuck = func() (int, error) { // Asked after the settlement, once in every pass.
		store.survey.Silent = 60
		if since := time.Since(store.began); since > 250*time.Second && since < 265*time.Second {
			store.survey.Silent = 0
		}
		return 0, nil
	}
	bubble(t, store, 500*time.Second, func(t *testing.T, _ *sweeping) {
		for i, at := range store.lists {
			require.Equal(t, at == 270*time.Second || at >= 280*time.Second+settle, store.signals[i].TrustSilence, "after %s", at)
		}
	})
}

func TestFutureLocksAreClamped(t *testing.T) {
	t.Parallel()
	left := 2500
	store := &fakeStore{clamp: func() (int, error) {
		n := min(left, 1000)
		left -= n
		return n, nil
	}}
	bubble(t, store, 21*time.Second, func(t *testing.T, s *sweeping) {
		require.Len(t, store.clamps, 3)
		require.InDelta(t, 2500, s.value(t, "rubato_zombie_locks_clamped_total", ""), 0)
	})
}

func TestWorkersRetireOnlyWhenSilenceCounts(t *testing.T) {
	t.Parallel()
	store := &fakeStore{}
	bubble(t, store, 201*time.Second, func(t *testing.T, _ *sweeping) {
		require.Equal(t, []time.Duration{180 * time.Second, 190 * time.Second, 200 * time.Second}, store.retired)
	})
}

func TestStuckClaimsAreCounted(t *testing.T) {
	t.Parallel()
	store := &fakeStore{stuck: func() (int, error) { return 3, nil }}
	bubble(t, store, 11*time.Second, func(t *testing.T, s *sweeping) {
		require.InDelta(t, 3, s.value(t, "rubato_zombie_claims_freed_total", ""), 0)
	})
}

func TestMetricsHaveEveryLabelFromTheStart(t *testing.T) {
	t.Parallel()
	store := &fakeStore{}
	bubble(t, store, time.Second, func(t *testing.T, s *sweeping) {
		for name, values := range map[string]int{"rubato_zombie_settled_total": 6, "rubato_zombie_errors_total": 9} {
			count, err := testutil.GatherAndCount(s.registry, name)
			require.NoError(t, err)
			require.Equal(t, values, count, name)
		}
		require.Positive(t, s.value(t, "rubato_zombie_last_sweep_timestamp_seconds", ""))
	})
}

func TestHangingSweepTimesOut(t *testing.T) {
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

func TestTakenOverClaimsAreCounted(t *testing.T) {
	t.Parallel()
	store := &fakeStore{free: func() (int, error) { return 2, nil }}
	bubble(t, store, time.Second, func(t *testing.T, s *sweeping) {
		require.InDelta(t, 2, s.value(t, "rubato_claims_stolen_total", ""), 0)
	})
}
