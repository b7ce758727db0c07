package claims_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/loop"
)

// keepAll extends every lock in the request.
func keepAll(_ context.Context, held []claims.FencedRun) ([][16]byte, error) {
	kept := make([][16]byte, len(held))
	for i, h := range held {
		kept[i] = h.RunID
	}
	return kept, nil
}

// heartbeatBundle is a running heartbeater.
type heartbeatBundle struct {
	*claims.Heartbeater
	registry *prometheus.Registry
	stop     func()
}

func runHeart(t *testing.T, store *fakeStore) heartbeatBundle {
	t.Helper()
	registry := prometheus.NewRegistry()
	logger := slog.New(slog.DiscardHandler)
	h := claims.NewHeartbeater(me, store, ttl, logger, claims.NewMetrics(registry), loop.NewRunner(logger, registry))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); h.Run(ctx) }()
	return heartbeatBundle{h, registry, func() { cancel(); <-ended }}
}

// hold grants the lock of a run to the heartbeater now and returns the context of its request.
func (h heartbeatBundle) hold(t *testing.T, run byte) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	t.Cleanup(func() { cancel(nil) })
	h.Hold(claims.NewLock(claims.FencedRun{RunID: [16]byte{run}, Token: int64(run)}, time.Now(), ttl, cancel))
	return ctx
}

func TestALockIsExtendedEveryThird(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{extend: keepAll}
		h := runHeart(t, store)
		began := time.Now()
		ctx := h.hold(t, 1)
		time.Sleep(10*ttl + time.Second)
		require.NoError(t, ctx.Err(), "a lock that is extended never ends")
		require.Len(t, store.beaten(), 30)
		for i, at := range store.beaten() {
			require.Equal(t, time.Duration(i+1)*ttl/3, at.Sub(began))
		}
		h.Drop([16]byte{1})
		time.Sleep(ttl)
		require.Len(t, store.beaten(), 30, "nothing held, nothing sent")
		h.stop()
	})
}

func TestAHeartbeatNamesEveryLockWithItsToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked []claims.FencedRun
		store := &fakeStore{extend: func(ctx context.Context, held []claims.FencedRun) ([][16]byte, error) {
			asked = held
			return keepAll(ctx, held)
		}}
		h := runHeart(t, store)
		for run := range byte(3) {
			h.hold(t, run+1)
		}
		time.Sleep(ttl/3 + 1)
		synctest.Wait()
		require.ElementsMatch(t, []claims.FencedRun{{RunID: [16]byte{1}, Token: 1}, {RunID: [16]byte{2}, Token: 2}, {RunID: [16]byte{3}, Token: 3}}, asked)
		h.stop()
	})
}

// TestAFailedHeartbeatIsTriedAgainEverySecond has an outage of 35 s, which is shorter than the
// lock. No lock is lost.
func TestAFailedHeartbeatIsTriedAgainEverySecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		store := &fakeStore{extend: func(ctx context.Context, held []claims.FencedRun) ([][16]byte, error) {
			if since := time.Since(began); since > 19*time.Second && since < 54*time.Second {
				return nil, errors.New("away")
			}
			return keepAll(ctx, held)
		}}
		h := runHeart(t, store)
		ctx := h.hold(t, 1)
		time.Sleep(70 * time.Second)
		require.NoError(t, ctx.Err())
		beats := store.beaten()
		for i := 1; i < 34; i++ {
			require.Equal(t, time.Second, beats[i].Sub(beats[i-1]))
		}
		h.stop()
	})
}

// TestALockExpiredOnlyByTheDatabaseClockIsKept sets the database's clock ahead. No other process
// took the lock, so its holder still records the run.
func TestALockExpiredOnlyByTheDatabaseClockIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{extend: func(context.Context, []claims.FencedRun) ([][16]byte, error) { return [][16]byte{{2}}, nil }, over: [][16]byte{{1}}}
		h := runHeart(t, store)
		over, kept := h.hold(t, 1), h.hold(t, 2)
		time.Sleep(ttl / 3)
		synctest.Wait()
		require.ErrorIs(t, context.Cause(over), claims.ErrLockOver)
		require.NoError(t, kept.Err())
		require.Equal(t, 1.0, h.count(t, "expired"))
		require.Zero(t, h.count(t, "revoked"))
		h.stop()
	})
}

func TestARevokedLockCancelsItsRunAndNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{extend: func(context.Context, []claims.FencedRun) ([][16]byte, error) { return [][16]byte{{2}}, nil }}
		h := runHeart(t, store)
		lost, kept := h.hold(t, 1), h.hold(t, 2)
		time.Sleep(ttl / 3)
		synctest.Wait()
		require.ErrorIs(t, context.Cause(lost), claims.ErrLockLost)
		require.NotErrorIs(t, context.Cause(lost), claims.ErrLockOver)
		require.NoError(t, kept.Err())
		require.Equal(t, 1.0, h.count(t, "revoked"))
		require.Zero(t, h.count(t, "expired"))
		h.stop()
	})
}

// count returns the number of locks lost by a cause.
func (h heartbeatBundle) count(t *testing.T, cause string) float64 {
	t.Helper()
	families, err := h.registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() != "rubato_claims_lock_lost_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == cause {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no lock_lost_total{cause=%q}", cause)
	return 0
}

// TestLockEndsOnItsHoldersClock partitions the holder in each possible way. It gives the lock up a
// second before the database does, within half a second.
func TestLockEndsOnItsHoldersClock(t *testing.T) {
	t.Parallel()
	for name, extend := range map[string]func(context.Context, []claims.FencedRun) ([][16]byte, error){
		"StatementsFail": func(context.Context, []claims.FencedRun) ([][16]byte, error) { return nil, errors.New("away") },
		"StatementsHang": func(ctx context.Context, _ []claims.FencedRun) ([][16]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
		"StatementsHangForEver": func(context.Context, []claims.FencedRun) ([][16]byte, error) {
			time.Sleep(10 * ttl)
			return nil, errors.New("away")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := runHeart(t, &fakeStore{extend: extend})
				ctx := h.hold(t, 1)
				time.Sleep(ttl - time.Second - time.Millisecond)
				require.NoError(t, ctx.Err())
				time.Sleep(time.Millisecond + 500*time.Millisecond)
				require.ErrorIs(t, context.Cause(ctx), claims.ErrLockLost)
				require.ErrorIs(t, context.Cause(ctx), claims.ErrLockOver)
				require.Equal(t, 1.0, h.count(t, "expired"))
				h.stop()
			})
		})
	}
}

// TestLateHeartbeatAnswerExtendsNoExpiredLock: a heartbeat that succeeds after the lock has ended
// locally does not extend it.
func TestLateHeartbeatAnswerExtendsNoExpiredLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{extend: func(ctx context.Context, held []claims.FencedRun) ([][16]byte, error) {
			time.Sleep(45 * time.Second) // From 20 s to 65 s, ignoring the context.
			return keepAll(ctx, held)
		}}
		h := runHeart(t, store)
		ctx := h.hold(t, 1)
		time.Sleep(66 * time.Second)
		require.ErrorIs(t, context.Cause(ctx), claims.ErrLockLost)
		h.stop()
	})
}

// TestHeartbeatAfterExpiryExtendsNoLock: a heartbeat that succeeds between the end of a lock
// and its detection does not extend it.
func TestHeartbeatAfterExpiryExtendsNoLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, beats := time.Now(), 0
		store := &fakeStore{extend: func(ctx context.Context, held []claims.FencedRun) ([][16]byte, error) {
			if beats++; beats == 1 {
				// From now on heartbeats are sent 300 ms after every second.
				time.Sleep(300 * time.Millisecond)
			}
			if time.Since(began) < 59*time.Second {
				return nil, errors.New("away")
			}
			return keepAll(ctx, held)
		}}
		h := runHeart(t, store)
		h.hold(t, 2) // From now on expiries are checked every half second.
		time.Sleep(250 * time.Millisecond)
		ctx := h.hold(t, 1)
		time.Sleep(60 * time.Second)
		require.ErrorIs(t, context.Cause(ctx), claims.ErrLockLost)
		h.stop()
		require.Equal(t, 59*time.Second+300*time.Millisecond, store.beaten()[len(store.beaten())-1].Sub(began))
	})
}

// TestALockCountsFromBeforeItsHeartbeatWasSent: a slow heartbeat does not lengthen the lock, which
// counts from the send time.
func TestALockCountsFromBeforeItsHeartbeatWasSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		beats := 0
		store := &fakeStore{extend: func(ctx context.Context, held []claims.FencedRun) ([][16]byte, error) {
			if beats++; beats > 1 {
				return nil, errors.New("away")
			}
			time.Sleep(9 * time.Second)
			return keepAll(ctx, held)
		}}
		h := runHeart(t, store)
		ctx := h.hold(t, 1)
		time.Sleep(ttl/3 + ttl - time.Second - time.Millisecond)
		require.NoError(t, ctx.Err())
		time.Sleep(501 * time.Millisecond)
		require.ErrorIs(t, context.Cause(ctx), claims.ErrLockLost)
		h.stop()
	})
}

func TestARunThatEndsDuringAHeartbeatLosesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{extend: func(context.Context, []claims.FencedRun) ([][16]byte, error) {
			time.Sleep(time.Second)
			return nil, nil // The run has finished and its row is gone.
		}}
		h := runHeart(t, store)
		ctx := h.hold(t, 1)
		time.Sleep(ttl/3 + 500*time.Millisecond)
		h.Drop([16]byte{1})
		time.Sleep(time.Second)
		require.NoError(t, ctx.Err())
		require.Zero(t, h.count(t, "revoked"))
		h.stop()
	})
}

func TestAStoppedHeartbeaterLeavesNothingRunning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{extend: func(ctx context.Context, _ []claims.FencedRun) ([][16]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		h := runHeart(t, store)
		ctx := h.hold(t, 1)
		time.Sleep(ttl/3 + 1)
		h.stop()
		require.NoError(t, ctx.Err(), "the end of heartbeats is not the loss of a lock")
	})
}

func TestOutlastsKeepsTheMargin(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		limit, ttl time.Duration
		want       bool
	}{
		{10 * time.Second, 15 * time.Second, false},
		{59 * time.Second, time.Minute, false},
		{59*time.Second + time.Millisecond, time.Minute, true},
		{time.Minute, time.Minute, true},
		{time.Hour, time.Minute, true},
	} {
		require.Equal(t, tc.want, claims.Outlasts(tc.limit, tc.ttl), "%v in %v", tc.limit, tc.ttl)
	}
}

func TestMetricsHaveEveryLabelFromTheStart(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	claims.NewMetrics(registry)
	count, err := testutil.GatherAndCount(registry)
	require.NoError(t, err)
	require.Equal(t, 5+2+2, count)
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestHeartbeatLagIsThatOfTheOldestLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		store := &fakeStore{extend: func(ctx context.Context, held []claims.FencedRun) ([][16]byte, error) {
			if away.Load() {
				return nil, errors.New("the database is away")
			}
			return keepAll(ctx, held)
		}}
		h := runHeart(t, store)
		defer h.stop()
		require.Zero(t, h.Lag(), "there is no lock to extend")

		h.hold(t, 1)
		time.Sleep(ttl/3 - time.Second)
		require.Equal(t, ttl/3-time.Second, h.Lag())
		h.hold(t, 2)
		require.Equal(t, ttl/3-time.Second, h.Lag(), "a fresh lock does not hide an old one")
		time.Sleep(2 * time.Second)
		require.Equal(t, time.Second, h.Lag(), "one heartbeat has extended both")

		away.Store(true)
		time.Sleep(ttl / 2)
		require.Equal(t, time.Second+ttl/2, h.Lag())
		away.Store(false)
		time.Sleep(2 * time.Second)
		require.LessOrEqual(t, h.Lag(), 2*time.Second)
		h.Drop([16]byte{1})
		h.Drop([16]byte{2})
		require.Zero(t, h.Lag())
	})
}

// TestExpiriesAreCheckedAfterAPause ends two locks hours apart, with no lock in between. The check
// pauses, and sees the second end.
func TestExpiriesAreCheckedAfterAPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		away := func(context.Context, []claims.FencedRun) ([][16]byte, error) { return nil, errors.New("away") }
		h := runHeart(t, &fakeStore{extend: away})
		for run := range byte(2) {
			ctx := h.hold(t, run+1)
			time.Sleep(ttl)
			require.ErrorIs(t, context.Cause(ctx), claims.ErrLockOver)
			time.Sleep(3*time.Hour + 100*time.Millisecond)
		}
		h.stop()
	})
}
