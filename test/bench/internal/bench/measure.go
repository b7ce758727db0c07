package bench

import (
	"cmp"
	"slices"
	"time"
)

// Measure is what one contender did in one round, or the median of several.
type Measure struct {
	RunsPerSecond float64 `json:"runsPerSecond"` // from the first due time to the commit of the last record
	StartLagMs    Spread  `json:"startLagMs"`    // from the due time to the request at the sink, by the sink's clock
	CPU           CPU     `json:"cpuSecondsPer1000"`
	PeakMemoryMiB float64 `json:"peakMemoryMiB"` // of the largest worker, or of the contender
	Completed     int     `json:"completed"`     // runs that succeeded and whose record is committed
	Missing       int     `json:"missing"`       // due times without a request
	// Failures are the runs that did not succeed, by status and reason. Each was tried again or is missing.
	Failures    map[string]int `json:"failures,omitempty"`
	EarlyStarts int            `json:"earlyStarts"` // requests before their due time
	Duplicates  int            `json:"duplicates"`  // requests beyond the first of a run
	Seconds     float64        `json:"seconds"`     // the span that RunsPerSecond is of
	StartLag    []Bar          `json:"startLagHistogram,omitempty"`
}

// CPU is how many seconds of CPU time a thousand runs took.
type CPU struct {
	Worker   float64 `json:"worker"`   // all workers together, or the contender
	Postgres float64 `json:"postgres"` // every process of it
	Sink     float64 `json:"sink"`
}

// observation is what a measure is made of.
type observation struct {
	from, to  time.Time // the span of due times
	finished  time.Time // when the last record was committed
	came      arrivals  // in the span
	expected  int       // due times in the span
	completed int
	used      usage
	peak      float64
}

func (o observation) measure() Measure {
	lags := o.came.lags()
	span := o.finished.Sub(o.from).Seconds()
	m := Measure{
		Completed: o.completed, EarlyStarts: o.came.early(), Duplicates: o.came.duplicates(), Seconds: span, PeakMemoryMiB: o.peak,
		StartLag: histogramOf(lags), StartLagMs: spreadOf(lags),
	}
	m.Missing = o.expected - (len(o.came) - m.Duplicates)
	if span > 0 {
		m.RunsPerSecond = float64(o.completed) / span
	}
	if o.completed > 0 {
		per := 1000 / float64(o.completed)
		m.CPU = CPU{Worker: o.used.worker.Seconds() * per, Postgres: o.used.postgres.Seconds() * per, Sink: o.used.sink.Seconds() * per}
	}
	return m
}

// medianOf returns the median of each number. Faults add up instead: one early start in three rounds is one too many.
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

// sumOf adds the histograms of rounds up.
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
	unbounded := func(b Bar) int { // The bar without a bound comes last.
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

// median returns the middle one of the numbers of rounds; of an even count the lower of the two in the middle, which was seen.
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
