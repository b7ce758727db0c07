package bench

import (
	"slices"
	"time"
)

// Spread holds percentiles of durations, in milliseconds.
type Spread struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// spreadOf returns the percentiles of durations. It sorts the slice.
func spreadOf(list []time.Duration) Spread {
	if len(list) == 0 {
		return Spread{}
	}
	slices.Sort(list)
	at := func(percent int) float64 { return milliseconds(list[min(len(list)-1, len(list)*percent/100)]) }
	return Spread{
		P50: at(50),
		P90: at(90),
		P99: at(99),
		Max: milliseconds(list[len(list)-1]),
	}
}

// milliseconds truncates to microseconds, because clocks of two processes are not comparable below
// that.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// histogramBounds are the upper bounds of the histogram buckets, in milliseconds.
func histogramBounds() []float64 {
	return []float64{0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000}
}

// Bar is a histogram bucket: the number of durations below its bound and above the previous one.
type Bar struct {
	BelowMs float64 `json:"belowMs"` // 0: unbounded
	Count   int     `json:"count"`
}

// histogramOf returns the non-empty buckets.
func histogramOf(list []time.Duration) []Bar {
	bounds := histogramBounds()
	counts := make([]int, len(bounds)+1)
	for _, d := range list {
		n, _ := slices.BinarySearch(bounds, milliseconds(d))
		counts[n]++
	}
	var bars []Bar
	for n, count := range counts {
		if count == 0 {
			continue
		}
		b := Bar{Count: count}
		if n < len(bounds) {
			b.BelowMs = bounds[n]
		}
		bars = append(bars, b)
	}
	return bars
}

// arrivals are the requests that reached the sink during a measurement.
type arrivals []arrival

// of returns the arrivals of a group with a due time in a span, the end excluded.
func (list arrivals) of(group byte, from, to time.Time) arrivals {
	var chosen arrivals
	for _, a := range list {
		if a.Group == group && a.Due >= from.UnixNano() && a.Due < to.UnixNano() {
			chosen = append(chosen, a)
		}
	}
	return chosen
}

// lags returns the delay of each arrival after its due time.
func (list arrivals) lags() []time.Duration {
	lags := make([]time.Duration, len(list))
	for i, a := range list {
		lags[i] = a.lag()
	}
	return lags
}

// early counts the arrivals before their due time.
func (list arrivals) early() (n int) {
	for _, a := range list {
		if a.At < a.Due {
			n++
		}
	}
	return n
}

// duplicates counts the additional requests of runs that arrived more than once.
func (list arrivals) duplicates() int {
	seen := make(map[uint64]struct{}, len(list))
	for _, a := range list {
		seen[a.Run] = struct{}{}
	}
	return len(list) - len(seen)
}

// last returns the time of the last arrival.
func (list arrivals) last() time.Time {
	var at int64
	for _, a := range list {
		at = max(at, a.At)
	}
	return time.Unix(0, at)
}
