package claims_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
)

// TestLowWaterMarkFollowsTheClaimedDueTimes makes a full scan, then one that finds claims or none,
// and checks where the third one starts.
func TestLowWaterMarkFollowsTheClaimedDueTimes(t *testing.T) {
	t.Parallel()
	then := time.Date(2026, 6, 15, 12, 0, 0, 0, time.UTC)
	now := then.Add(30 * time.Second)
	planned := func(at ...time.Time) (list []claims.Claim) {
		for _, p := range at {
			list = append(list, claims.Claim{PlannedAt: p})
		}
		return list
	}
	for name, c := range map[string]struct {
		ask  claims.Request
		list []claims.Claim
		now  time.Time
		want time.Time
	}{
		"NothingIsLeft":    {ask: claims.Request{Limit: 3}, list: planned(then, now), now: now, want: now.Add(-10 * time.Second)},
		"OverdueIsLeft":    {ask: claims.Request{Limit: 2}, list: planned(now, then.Add(-time.Minute)), now: now, want: then.Add(-time.Minute)},
		"LaterIsLeft":      {ask: claims.Request{Limit: 2}, list: planned(now.Add(time.Second), now), now: now, want: now.Add(-10 * time.Second)},
		"ItCameToNothing":  {ask: claims.Request{Limit: 3}, want: then.Add(-10 * time.Second)},
		"ThereWasNoRoom":   {now: now, want: then.Add(-10 * time.Second)},
		"TenantsHadShares": {ask: claims.Request{Limit: 3, Tenants: [][16]byte{big}, Share: 3}, now: now, want: then.Add(-10 * time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var f claims.LowWaterMark
				bottom := claims.Request{Limit: 5, From: then}
				f.Begin(&bottom)
				require.Zero(t, bottom.From, "nothing is known yet")
				f.Ended(bottom, nil, then, time.Now())

				f.Begin(&c.ask)
				f.Ended(c.ask, c.list, c.now, time.Now())

				next := claims.Request{Limit: 5}
				f.Begin(&next)
				require.Equal(t, c.want, next.From)
				shares := claims.Request{Limit: 5, Tenants: [][16]byte{big, small}, Share: 2}
				f.Begin(&shares)
				require.Zero(t, shares.From, "each tenant has a head of its own")
			})
		})
	}
}

// TestFullScansAreAsFrequentAsTheirCostAllows: the share of claims that scan from the bottom of
// the index depends on their cost. It claims without a pause, from a database that is slow at the
// bottom or times out there.
func TestFullScansAreAsFrequentAsTheirCostAllows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		takes time.Duration
		once  time.Duration // the third one
		fails bool
		every time.Duration
	}{
		"AtOnce":     {takes: 2 * time.Millisecond, every: 500 * time.Millisecond},
		"OnceSlowly": {takes: 2 * time.Millisecond, once: 900 * time.Millisecond, every: 500 * time.Millisecond},
		"Slowly":     {takes: 40 * time.Millisecond, every: 4 * time.Second},
		"VerySlowly": {takes: 2 * time.Second, every: 200 * time.Second},
		"TooSlowly":  {takes: 9 * time.Second, every: 5 * time.Minute},
		"NotAnyMore": {takes: 2 * time.Second, fails: true, every: 200 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var bottom []time.Time
				stop := claimBy(t, func(r claims.Request) ([]claims.Claim, error) {
					if !r.From.IsZero() {
						time.Sleep(min(c.every/50, time.Second))
						return []claims.Claim{{PlannedAt: time.Now()}}, nil
					}
					bottom = append(bottom, time.Now())
					time.Sleep(c.takes)
					if len(bottom) == 3 {
						time.Sleep(c.once)
					}
					if c.fails && len(bottom) > 1 {
						return nil, context.DeadlineExceeded
					}
					return []claims.Claim{{PlannedAt: time.Now()}}, nil
				})
				time.Sleep(15 * c.every)
				stop()
				require.InDelta(t, 15, len(bottom), 1)
				for i := 2; i < len(bottom); i++ {
					require.InDelta(t, c.every.Seconds(), bottom[i].Sub(bottom[i-1]).Seconds(), 1.2, "and a poll later at most")
				}
			})
		})
	}
}

// TestWideScansFindWhatCameBack claims from a database that is slow at the bottom. Scans that start
// a minute before the mark come at least every ten seconds.
func TestWideScansFindWhatCameBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ takes, every time.Duration }{
		"Fast":   {takes: time.Millisecond, every: 500 * time.Millisecond},
		"Slow":   {takes: 40 * time.Millisecond, every: 4 * time.Second},
		"Slower": {takes: time.Second, every: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var wide []time.Time
				stop := claimBy(t, func(r claims.Request) ([]claims.Claim, error) {
					switch back := time.Since(r.From); {
					case r.From.IsZero():
						time.Sleep(5 * time.Second)
					case back > 65*time.Second && back < 75*time.Second:
						wide = append(wide, time.Now())
						time.Sleep(c.takes)
					default:
						time.Sleep(10 * time.Millisecond)
					}
					return []claims.Claim{{PlannedAt: time.Now()}}, nil
				})
				time.Sleep(5 * time.Minute)
				stop()
				require.InDelta(t, float64(5*time.Minute/c.every), len(wide), 0.05*float64(5*time.Minute/c.every)+1)
			})
		})
	}
}

// claimBy claims without a pause from a store, until stop returns.
func claimBy(t *testing.T, claim func(r claims.Request) ([]claims.Claim, error)) (stop func()) {
	t.Helper()
	store := &fakeStore{claim: func(_ context.Context, r claims.Request) ([]claims.Claim, error) { return claim(r) }}
	_, stop = runClaimer(t, store, &fakeReceiver{room: 1})
	return stop
}
