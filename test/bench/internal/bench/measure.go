package bench

import (
	"cmp"
	"slices"
	"time"
)

// Measure is the result of a contender in one round, or the median over several.
type Measure struct {
	RunsPerSecond float64 `json:"runsPerSecond"` // throughput from the first due time to the last commit
	StartLagMs    Spread  `json:"startLagMs"`    // from the due time to the request at the sink, by the sink's clock
	CPU           CPU     `json:"cpuSecondsPer1000"`
	PeakMemoryMiB float64 `json:"peakMemoryMiB"` // of the largest worker, or of the contender
	Completed     int     `json:"completed"`     // successful runs with a committed record
	Missing       int     `json:"missing"`       // due times without a request
	// Failures counts the failed runs by status and reason. Each was retried or is missing.
	Failures    map[string]int `json:"failures,omitempty"`
	EarlyStarts int            `json:"earlyStarts"` // requests before their due time
	Duplicates  int            `json:"duplicates"`  // additional requests of a run
	Seconds     float64        `json:"seconds"`     // duration that RunsPerSecond is computed over
	StartLag    []Bar          `json:"startLagHistogram,omitempty"`
}

// CPU is the CPU time per thousand runs, in seconds.
type CPU struct {
	Worker   float64 `json:"worker"`   // all workers, or the contender
	Postgres float64 `json:"postgres"` // all its processes
	Sink     float64 `json:"sink"`
}

// observation is the raw data of a measure.
type observation struct {
	from, to  time.Time // span of due times
	finished  time.Time // last commit
	came      arrivals  // in the span
	expected  int       // number of due times in the span
	completed int
	used      usage
	peak      float64
}

func (o observation) measure() Measure {
	lags := o.came.lags()
	span := o.finished.Sub(o.from).Seconds()
	m := Measure{
		Completed:     o.completed,
		EarlyStarts:   o.came.early(),
		Duplicates:    o.came.duplicates(),
		Seconds:       span,
		PeakMemoryMiB: o.peak,
		StartLag:      histogramOf(lags),
		StartLagMs:    spreadOf(lags),
	}
	m.Missing = o.expected - (len(o.came) - m.Duplicates)
	if span > 0 {
		m.RunsPerSecond = float64(o.completed) / span
	}
	if o.completed > 0 {
		per := 1000 / float64(o.completed)
		m.CPU = CPU{
			Worker:   o.used.worker.Seconds() * per,
			Postgres: o.used.postgres.Seconds() * per,
			Sink:     o.used.sink.Seconds() * per,
		}
	}
	return m
}

// medianOf returns the medians over rounds. Faults are summed instead, because one early start in
// any round is a fault.
func medianOf(rounds []Measure) Measure {
	number := func(of func(Measure) float64) float64 { return median(rounds, of) }
	m := Measure{
		RunsPerSecond: number(func(m Measure) float64 { return m.RunsPerSecond }),
		StartLagMs: Spread{
			P50: number(func(m Measure) float64 { return m.StartLagMs.P50 }),
			P90: number(func(m Measure) float64 { return m.StartLagMs.P90 }),
			P99: number(func(m Measure) float64 { return m.StartLagMs.P99 }),
			Max: number(func(m Measure) float64 { return m.StartLagMs.Max }),
		},
		CPU: CPU{
			Worker:   number(func(m Measure) float64 { return m.CPU.Worker }),
			Postgres: number(func(m Measure) float64 { return m.CPU.Postgres }),
			Sink:     number(func(m Measure) float64 { return m.CPU.Sink }),
		},
		PeakMemoryMiB: number(func(m Measure) float64 { return m.PeakMemoryMiB }),
		Seconds:       number(func(m Measure) float64 { return m.Seconds }),
		Completed:     int(number(func(m Measure) float64 { return float64(m.Completed) })),
	}
	for _, r := range rounds {
		m.EarlyStarts += r.EarlyStarts
		m.Duplicates += r.Duplicates
		m.Missing += r.Missing
		for reason, n := range r.Failures {
			if m.Failures == nil {
				m.Failures = map[string]int{}
			}
			m.Failures[reason] += n
		}
	}
	m.StartLag = sumOf(rounds)
	return m
}

// sumOf sums the histograms of rounds.
func sumOf(rounds []Measure) []Bar {
	counts := map[float64]int{}
	for _, r := range rounds {
		for _, b := range r.StartLag {
			counts[b.BelowMs] += b.Count
		}
	}
	bars := make([]Bar, 0, len(counts))
	for below, count := range counts {
		bars = append(bars, Bar{BelowMs: below, Count: count})
	}
	unbounded := func(b Bar) int { // sorts the unbounded bucket last
		if b.BelowMs == 0 {
			return 1
		}
		return 0
	}
	slices.SortFunc(bars, func(a, b Bar) int {
		return cmp.Or(cmp.Compare(unbounded(a), unbounded(b)), cmp.Compare(a.BelowMs, b.BelowMs))
	})
	return bars
}

// median returns the middle number of the rounds. For an even count it is the lower of the two,
// because that value was measured.
func median[T any](rounds []T, of func(T) float64) float64 {
	if len(rounds) == 0 {
		return 0
	}
	list := make([]float64, len(rounds))
	for i, r := range rounds {
		list[i] = of(r)
	}
	slices.Sort(list)
	return list[(len(list)-1)/2]
}
