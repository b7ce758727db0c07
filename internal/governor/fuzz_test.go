package governor_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/governor"
)

// FuzzDecide takes arbitrary instants, durations and counts, invalid ones included, and crons with
// a regular period. Bits of flags select the optional inputs.
func FuzzDecide(f *testing.F) {
	t0 := T.UnixNano()
	f.Add(t0, t0, int64(minute), int64(0), int64(0), t0, t0, int64(0), 0, uint16(0))
	f.Add(t0+int64(90*second), t0, int64(minute), int64(minute), int64(hour), t0+1, t0+int64(hour), int64(second), 3, uint16(0xffff))
	f.Add(int64(math.MaxInt64), int64(math.MinInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64),
		int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), math.MaxInt, uint16(0x0aaa))
	f.Add(int64(math.MinInt64), int64(math.MaxInt64), int64(math.MinInt64), int64(math.MinInt64), int64(math.MinInt64),
		int64(math.MinInt64), int64(math.MinInt64), int64(math.MinInt64), math.MinInt, uint16(0x5555))
	f.Fuzz(func(t *testing.T, now, anchor, interval, lowest, highest, hint, until, jitter int64, failures int, flags uint16) {
		has := func(bit int) bool { return flags>>bit&1 == 1 }
		instant := func(n int64) time.Time {
			if has(0) {
				return time.Unix(n, 0) // far beyond the years that nanoseconds reach
			}
			return time.Unix(0, n)
		}
		given := func(bit int, n int64) time.Time {
			if has(bit) {
				return instant(n)
			}
			return time.Time{}
		}
		in := governor.Input{
			Now: instant(now), Anchor: given(1, anchor), StartAt: given(10, until), LastSlot: given(11, anchor),
			RetryAfter: given(8, until), TargetNext: given(12, hint), FreshUntil: given(13, until), PausedUntil: given(9, hint), Baseline: every(time.Duration(interval)), Failures: failures,
			CatchUp:     []governor.CatchUp{"", governor.CatchUpOnce, governor.CatchUpSkip, governor.CatchUpAll}[flags>>4&3],
			QueuedUntil: given(14, now),
			Min:         time.Duration(lowest), Max: time.Duration(highest), Jitter: time.Duration(jitter),
		}
		if has(2) {
			in.Cause = governor.CauseReplan
		}
		if has(3) {
			in.Baseline = on(grid(max(interval, 1)))
		}
		if has(6) {
			in.IntervalHint = &governor.IntervalHint{Interval: time.Duration(hint), ExpiresAt: instant(until)}
		}
		if has(12) {
			in.ChangeRate = &governor.ChangeRate{Wait: time.Duration(lowest), Rate: float64(failures), Price: float64(interval)}
		}
		if has(7) {
			in.OneShot = &governor.OneShotHint{At: instant(hint), ExpiresAt: instant(until)}
		}
		got := governor.Decide(in)
		requireSound(t, in, got)
		require.Equal(t, got, governor.Decide(in))
	})
}
