package audit

import (
	"slices"
	"time"
)

// Lateness is a distribution of durations in milliseconds; all zero without data.
type Lateness struct {
	N   int   `json:"n"`
	P50 int64 `json:"p50Ms"`
	P90 int64 `json:"p90Ms"`
	P99 int64 `json:"p99Ms"`
	Max int64 `json:"maxMs"`
}

func percentiles(list []time.Duration) Lateness {
	if len(list) == 0 {
		return Lateness{}
	}
	sorted := slices.Sorted(slices.Values(list))
	at := func(percent int) int64 { return sorted[(len(sorted)-1)*percent/100].Milliseconds() }
	return Lateness{
		N:   len(sorted),
		P50: at(50),
		P90: at(90),
		P99: at(99),
		Max: at(100),
	}
}
