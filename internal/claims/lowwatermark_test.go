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
// the index depends on their cost. It claims without a pause for a minute, from a database that is
// slow at the bottom or times out there.
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
		"VerySlowly": {takes: 2 * time.Second, every: 10 * time.Second},
		"NotAnyMore": {takes: 2 * time.Second, fails: true, every: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store, taker := &fakeStore{}, &fakeReceiver{room: 1}
				var bottom []time.Time
				store.claim = func(_ context.Context, r claims.Request) ([]claims.Claim, error) {
					if !r.From.IsZero() {
						time.Sleep(10 * time.Millisecond)
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
				}
				_, stop := runClaimer(t, store, taker)
				time.Sleep(time.Minute)
				stop()
				require.InDelta(t, int(time.Minute/c.every), len(bottom), 1)
				for i := 2; i < len(bottom); i++ {
					require.InDelta(t, c.every.Seconds(), bottom[i].Sub(bottom[i-1]).Seconds(), 1.2, "and a poll later at most")
				}
			})
		})
	}
}
