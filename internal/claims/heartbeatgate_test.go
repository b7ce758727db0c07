package claims_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
)

func TestThreeFailuresCloseTheHeartbeatGate(t *testing.T) {
	t.Parallel()
	fault := errors.New("away")
	for name, tc := range map[string]struct {
		beats []error
		weak  bool
	}{
		"Never":                {nil, false},
		"Twice":                {[]error{fault, fault}, false},
		"ThreeTimes":           {[]error{fault, fault, fault}, true},
		"Flaky":                {[]error{fault, nil, fault, nil, fault, nil, fault}, false},
		"NearlyEveryTime":      {[]error{fault, fault, nil, fault, fault, nil, fault, fault}, false},
		"FiveTimesAndThenFine": {[]error{fault, fault, fault, fault, fault, nil}, false},
		"FineAndThenAgain":     {[]error{fault, fault, fault, nil, fault, fault, fault}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, sign := range []claims.HeartbeatKind{claims.RunHeartbeat, claims.PresenceHeartbeat} {
				p := claims.NewHeartbeatGate(slog.New(slog.DiscardHandler))
				for _, err := range tc.beats {
					p.Beat(sign, err)
				}
				if tc.weak {
					require.ErrorContains(t, p.Err(), "has failed 3 times in a row")
				} else {
					require.NoError(t, p.Err())
				}
			}
		})
	}
}

func TestHeartbeatsAndClaimsAreCheckedSeparately(t *testing.T) {
	t.Parallel()
	p := claims.NewHeartbeatGate(slog.New(slog.DiscardHandler))
	for range 3 {
		p.Beat(claims.RunHeartbeat, errors.New("away"))
		p.Beat(claims.PresenceHeartbeat, nil)
	}
	require.ErrorContains(t, p.Err(), "heartbeat of runs")
}

// TestFailingHeartbeatsCloseTheGate: the third failed heartbeat in a row closes the gate, and the
// first success opens it. Alternating results do neither.
func TestFailingHeartbeatsCloseTheGate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		store := &fakeStore{extend: func(ctx context.Context, held []claims.FencedRun) ([][16]byte, error) {
			if since := time.Since(began); since > 19*time.Second && since < 30*time.Second {
				return nil, errors.New("away")
			}
			return keepAll(ctx, held)
		}}
		h := runHeart(t, store)
		ctx := h.hold(t, 1)
		weak := func(after time.Duration) error {
			time.Sleep(time.Until(began.Add(after)))
			synctest.Wait()
			return h.Gate().Err()
		}
		require.NoError(t, weak(21*time.Second+500*time.Millisecond), "two have failed")
		require.Error(t, weak(22*time.Second+500*time.Millisecond))
		require.Error(t, weak(29*time.Second+500*time.Millisecond))
		require.NoError(t, weak(30*time.Second+500*time.Millisecond), "the next one succeeds")
		require.NoError(t, ctx.Err())
		h.stop()
	})
}

func TestFlakyHeartbeatsStopNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		beats := 0
		store := &fakeStore{extend: func(ctx context.Context, held []claims.FencedRun) ([][16]byte, error) {
			if beats++; beats%2 == 1 {
				return nil, errors.New("away")
			}
			return keepAll(ctx, held)
		}}
		h := runHeart(t, store)
		ctx := h.hold(t, 1)
		for range 30 * 60 {
			time.Sleep(time.Second)
			require.NoError(t, h.Gate().Err())
			require.NoError(t, ctx.Err())
		}
		h.stop()
	})
}

// TestARunOfHalfAnHourKeepsItsLock has the longest possible execution, with every tenth heartbeat
// failing.
func TestARunOfHalfAnHourKeepsItsLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		beats := 0
		var last time.Time
		store := &fakeStore{extend: func(ctx context.Context, held []claims.FencedRun) ([][16]byte, error) {
			if beats++; beats%10 == 0 {
				return nil, errors.New("away")
			}
			if !last.IsZero() {
				require.LessOrEqual(t, time.Since(last), ttl/3+time.Second)
			}
			last = time.Now()
			return keepAll(ctx, held)
		}}
		h := runHeart(t, store)
		ctx := h.hold(t, 1)
		time.Sleep(30 * time.Minute)
		require.NoError(t, ctx.Err())
		require.GreaterOrEqual(t, beats, 89)
		h.stop()
	})
}
