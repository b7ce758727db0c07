package governor_test

import (
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"rubato/internal/governor"
)

// endpoint returns the n-th of a row of IDs.
func endpoint(n int) (id [16]byte) {
	binary.BigEndian.PutUint64(id[8:], uint64(n))
	return id
}

// shift returns the jitter offset of an endpoint with an interval due at T + 1 min.
func shift(id [16]byte, jitter time.Duration) time.Duration {
	got := governor.Decide(governor.Input{EndpointID: id, Now: T, Anchor: T, Baseline: every(minute), Jitter: jitter})
	return got.At.Sub(at(minute))
}

// TestJitterIsPinned fails when the hash changes: decisions on record could no longer be replayed.
// The numbers were worked out from the description of the hash, not with this code.
func TestJitterIsPinned(t *testing.T) {
	t.Parallel()
	id := [16]byte{0: 1, 15: 2}
	require.Equal(t, 1795731*time.Millisecond, shift(endpoint(0), hour))
	require.Equal(t, 1511611*time.Millisecond, shift(endpoint(1), hour))
	require.Equal(t, 1706527*time.Millisecond, shift(id, hour))
	require.Equal(t, 306527*time.Nanosecond, shift(id, 700*time.Microsecond))
}

func TestJitterIsWithinItsBound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		bound := time.Duration(rapid.OneOf(
			rapid.Int64Range(1, 10), rapid.Int64Range(1, int64(3*time.Millisecond)), rapid.Int64Range(1, int64(year)),
		).Draw(t, "bound"))
		got := shift(endpoint(rapid.IntRange(0, math.MaxInt).Draw(t, "endpoint")), bound)
		require.GreaterOrEqual(t, got, time.Duration(0))
		require.Less(t, got, bound)
		if bound >= time.Millisecond {
			require.Zero(t, got%time.Millisecond, "whole milliseconds: %v", got)
		}
	})
}

func TestJitterReachesAllOfItsBound(t *testing.T) {
	t.Parallel()
	for bound, want := range map[time.Duration]int{1: 1, 3: 3, time.Millisecond: 1, time.Millisecond + 1: 2, 2 * time.Millisecond: 2, 5 * time.Millisecond: 5} {
		seen := map[time.Duration]bool{}
		for n := range 500 {
			seen[shift(endpoint(n), bound)] = true
		}
		require.Len(t, seen, want, "bound %v", bound)
	}
}

// TestJitterSpreads puts 6000 endpoints with consecutive IDs into 60 buckets. A fair hash misses 50
// to 150 in one of them about once in ten million tries.
func TestJitterSpreads(t *testing.T) {
	t.Parallel()
	var buckets [60]int
	for n := range 6000 {
		buckets[shift(endpoint(n), minute)/second]++
	}
	for i, n := range buckets {
		require.InDelta(t, 100, n, 50, "second %d", i)
	}
}

func TestJitterDependsOnEachOfItsInputs(t *testing.T) {
	t.Parallel()
	in := governor.Input{EndpointID: endpoint(1), Now: T, Anchor: T, Baseline: every(minute), Jitter: hour}
	base := governor.Decide(in).At.Sub(at(minute))
	for i := range in.EndpointID {
		other := in
		other.EndpointID[i] ^= 0x80
		require.NotEqual(t, base, governor.Decide(other).At.Sub(at(minute)), "byte %d", i)
	}
	later := in
	later.Baseline = every(minute + time.Microsecond)
	require.NotEqual(t, base, governor.Decide(later).At.Sub(at(minute+time.Microsecond)), "due time")
	failing := in
	failing.Now, failing.LastSlot, failing.Min = at(second), T, second
	require.Equal(t, base, governor.Decide(failing).At.Sub(at(minute)), "nothing else counts")
}

func TestJitterRule(t *testing.T) {
	t.Parallel()
	id := endpoint(7)
	off := shift(id, hour)
	require.Greater(t, off, minute, "the rows below need an offset that shows")
	paused := governor.Decide(governor.Input{EndpointID: id, Now: T, Anchor: T, Baseline: every(2 * hour), Jitter: hour}).At.Sub(at(2 * hour))
	bi := governor.SourceBaselineInterval
	jittered := rules(governor.RuleBaselineInterval, governor.RuleJitter)
	with := func(in governor.Input) governor.Input {
		in.EndpointID, in.Anchor, in.Jitter = id, T, hour
		return in
	}
	none := with(governor.Input{Now: T, Baseline: every(minute)})
	none.Jitter = -hour
	runCases(t, []ruleCase{
		{name: "KeepsTheSource", in: with(governor.Input{Now: T, Baseline: every(minute)}), wantAt: at(minute + off), wantSlot: at(minute), wantSource: bi, wantRules: jittered},
		{name: "NegativeIsNone", in: none, wantAt: at(minute), wantSource: bi, wantRules: rules(governor.RuleBaselineInterval)},
		{
			name: "ComesAfterTheOverrunFloor", wantAt: at(minute + off), wantSlot: at(minute), wantSource: bi,
			in:        with(governor.Input{Now: at(minute), Cause: governor.CauseReplan, Baseline: every(second)}),
			wantRules: rules(governor.RuleBaselineInterval, governor.RuleOverrun, governor.RuleJitter),
		},
		{
			name: "MaximumHolds", wantAt: at(2 * minute), wantSource: governor.SourceClampedMax,
			in:        with(governor.Input{Now: T, Baseline: every(minute), Max: 2 * minute}),
			wantRules: rules(governor.RuleBaselineInterval, governor.RuleJitter, governor.RuleClampedMax),
		},
		{
			name: "MinimumCountsItIn", wantAt: at(minute + off), wantSlot: at(minute), wantSource: bi,
			in: with(governor.Input{Now: T, Baseline: every(minute), Min: 2 * minute}),
		},
		{
			name: "StopsAtTheEnd", wantAt: governor.Indefinite, wantSource: governor.SourceBaselineCron,
			in: with(governor.Input{Now: T, Baseline: on(listed{})}),
		},
		{
			name: "SpreadsTheEndOfAPause", wantAt: at(2*hour + paused), wantSlot: at(2 * hour), wantSource: governor.SourcePaused,
			in: with(governor.Input{Now: T, Baseline: every(minute), PausedUntil: at(2 * hour)}),
		},
		{
			name: "CronAfterAPauseHasItsUsualOffset", wantAt: at(2*hour + paused), wantSlot: at(2 * hour), wantSource: governor.SourcePaused,
			in: with(governor.Input{Now: T, Baseline: on(grid(10 * minute)), PausedUntil: at(2*hour - minute)}),
		},
		{
			name: "IndefinitelyIsNotSpread", wantAt: governor.Indefinite, wantSource: governor.SourcePaused,
			in: with(governor.Input{Now: T, Baseline: every(minute), PausedUntil: governor.Indefinite}),
		},
	})
}

// TestJitterDoesNotDrift counts ten runs on, each from the slot of the one before: the grid stays
// where it was.
func TestJitterDoesNotDrift(t *testing.T) {
	t.Parallel()
	in := governor.Input{EndpointID: endpoint(1), Now: T, Anchor: T, Baseline: every(minute), Jitter: 30 * second}
	for want := at(minute); want.Before(at(11 * minute)); want = want.Add(minute) {
		got := governor.Decide(in)
		require.Equal(t, want, got.Slot)
		in.Now, in.Anchor, in.LastSlot = got.At, got.Slot, got.Slot
	}
}

func TestLongestJitterIsSound(t *testing.T) {
	t.Parallel()
	for n := range 100 {
		in := governor.Input{EndpointID: endpoint(n), Now: T, Anchor: T, Baseline: every(minute), Jitter: math.MaxInt64}
		requireSound(t, in, governor.Decide(in))
	}
}
