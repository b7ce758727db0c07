package governor_test

import (
	"testing"

	"rubato/internal/governor"
)

// BenchmarkDecide covers the decisions of a finish: a plain interval is by far the most frequent,
// the others show the cost of each part of the trace. The budget is 1 µs. The cron here is nearly
// free, so a real one adds its own search.
func BenchmarkDecide(b *testing.B) {
	id := endpoint(1)
	now := at(second)
	for _, bc := range []struct {
		name string
		in   governor.Input
	}{
		{"Interval", governor.Input{EndpointID: id, Now: now, Anchor: T, LastSlot: T, Baseline: every(minute)}},
		{"Backoff", governor.Input{EndpointID: id, Now: now, Anchor: T, LastSlot: T, Baseline: every(minute), Failures: 3}},
		{"Cron", governor.Input{EndpointID: id, Now: now, Anchor: T, LastSlot: T, Baseline: on(grid(minute))}},
		{"Overrun", governor.Input{EndpointID: id, Now: at(90 * second), Anchor: T, LastSlot: T, Baseline: every(minute)}},
		{"Hint", governor.Input{EndpointID: id, Now: now, Anchor: T, LastSlot: T, Baseline: every(hour), IntervalHint: hintEvery(minute, hour)}},
		{"Jitter", governor.Input{EndpointID: id, Now: now, Anchor: T, LastSlot: T, Baseline: every(minute), Jitter: second}},
		{"Clamped", governor.Input{EndpointID: id, Now: now, Anchor: T, LastSlot: T, Baseline: every(second), Min: minute, Max: hour}},
		{"Paused", governor.Input{EndpointID: id, Now: now, Anchor: T, LastSlot: T, Baseline: every(minute), PausedUntil: governor.Indefinite}},
		{"EveryRule", governor.Input{
			EndpointID: id, Now: at(90 * second), Anchor: T, LastSlot: T, Baseline: every(hour), Failures: 3,
			IntervalHint: hintEvery(minute, hour), OneShot: hintOnce(30*second, hour), TargetNext: at(30*second + 1), RetryAfter: at(31 * second),
			Jitter: second, Min: 10 * minute, Max: 11 * minute, PausedUntil: at(hour),
		}},
		{"CatchUpAll", governor.Input{
			EndpointID: id, Now: at(day), Anchor: T, LastSlot: T, Baseline: on(grid(minute)), CatchUp: governor.CatchUpAll,
		}},
	} {
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = governor.Decide(bc.in)
			}
		})
	}
}
