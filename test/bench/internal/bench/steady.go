package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Steady measures calls at a constant rate, with due times that are known in advance.
type Steady struct {
	Contest

	Rate int           // calls per second
	For  time.Duration // duration of the measurement
	// Every is the interval of the endpoints. An interval beyond the claim horizon requires a claim
	// per run; with a shorter one, workers keep their endpoints.
	Every   time.Duration
	Workers int
	// Settle is the time from the start of the additional load, if any, to the first due time. The
	// database is that much older then, with vacuums and checkpoints behind it.
	Settle time.Duration
	// Hosts is the number of hosts of the endpoints, each a loopback address; 0: all have one.
	Hosts  int
	Find   bool // search the highest rate with a lag below FindLag, from Rate upwards
	fenced int  // see start

	sideLoad
}

// beyondHorizon is an interval beyond the claim horizon, so that every run needs a claim.
const beyondHorizon = 12 * time.Second

// sideLoad is additional load during a workload.
type sideLoad struct {
	extra func(ctx context.Context, in *installation, w workload) error // prepares it before the workers start; nil: none
	// during is called at the first due time, and ends before the installation does; nil: none.
	during func(ctx context.Context) error
	// seen gets all arrivals; nil: not needed.
	seen func(arrivals)
}

// FindLag is the limit of the p99 lag at the highest rate.
const FindLag = 50 * time.Millisecond

// Run measures the rate, or searches the highest one.
func (s Steady) Run(ctx context.Context) (_ Report, err error) {
	l, err := openLab(ctx, s.Host)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, l.close(context.WithoutCancel(ctx))) }()
	var found *Search
	if s.Find {
		if found, err = s.find(ctx, l); err != nil {
			return Report{}, err
		}
		s.Rate = max(1, found.HighestRate)
	}
	r, err := s.hold(ctx, l, s.workload(), func(ctx context.Context, fenced int) (Measure, error) {
		s.fenced = fenced
		return l.steady(ctx, s)
	})
	if err != nil {
		return Report{}, err
	}
	s.describe(&r, "steady")
	r.Search = found
	return r, nil
}

// describe sets the command and the configuration of a report.
func (s Steady) describe(r *Report, command string) {
	r.Command = command
	r.Config["rate"], r.Config["seconds"], r.Config["intervalMs"], r.Config["workers"] = s.Rate, s.For.Seconds(), s.Every.Milliseconds(), s.Workers
}

// workload returns the measured due times.
func (s Steady) workload() workload {
	jobs := int(float64(s.Rate) * s.For.Seconds())
	return workload{Jobs: jobs, Span: time.Second * time.Duration(jobs) / time.Duration(s.Rate)}
}

// endpoints returns the number of endpoints that produce the rate. It is lower than the interval
// needs if no endpoint comes due twice.
func (s Steady) endpoints() int {
	return int(float64(s.Rate) * min(s.Every, s.For).Seconds())
}

// steady measures a steady load on Rubato.
func (l *environment) steady(ctx context.Context, s Steady) (Measure, error) {
	begin := start{
		endpoints: s.endpoints(),
		every:     s.Every,
		workers:   s.Workers,
		fenced:    s.fenced,
		extra:     s.extra,
		settle:    s.Settle,
		hosts:     s.Hosts,
	}
	return persistently(l, begin.contender(), func(stretch int) (_ Measure, err error) {
		in, err := l.install(ctx, nil)
		if err != nil {
			return Measure{}, err
		}
		defer func() { err = errors.Join(err, in.close(ctx)) }()
		w := s.workload()
		begin.work, begin.stretch = &w, stretch
		if err := in.begin(ctx, begin); err != nil {
			return Measure{}, err
		}
		watched := in.watch(w)
		watched.seen = s.seen
		if s.during != nil {
			watched.during = s.during
		}
		return l.watch(ctx, watched)
	})
}

// Search is the search for the highest rate.
type Search struct {
	HighestRate int     `json:"highestRate"` // calls per second with a p99 lag below the limit; 0: even the first rate was too high
	LimitMs     float64 `json:"limitMs"`
	Trials      []Trial `json:"trials"`
}

// Trial is one tried rate.
type Trial struct {
	Rate  int     `json:"rate"`
	P99Ms float64 `json:"p99Ms"`
	Kept  bool    `json:"kept"` // no call was missing, and the p99 lag was below the limit
}

// find doubles the rate until the lag exceeds the limit, and then bisects twice.
func (s Steady) find(ctx context.Context, l *environment) (*Search, error) {
	const halvings = 2
	out := &Search{LimitMs: milliseconds(FindLag)}
	try := func(rate int) (bool, error) {
		l.Progress.Say("trying %d calls a second", rate)
		s.Rate = rate
		m, err := l.steady(ctx, s)
		if err != nil {
			return false, fmt.Errorf("trying %d calls a second: %w", rate, err)
		}
		kept := m.Missing == 0 && m.StartLagMs.P99 <= out.LimitMs
		l.Progress.Say("  lag p99 %.1f ms, %d missing", m.StartLagMs.P99, m.Missing)
		out.Trials = append(out.Trials, Trial{
			Rate:  rate,
			P99Ms: m.StartLagMs.P99,
			Kept:  kept,
		})
		return kept, nil
	}
	low, high := 0, s.Rate
	for {
		kept, err := try(high)
		if err != nil {
			return nil, err
		}
		if !kept {
			break
		}
		low, high = high, 2*high
	}
	for range halvings {
		middle := (low + high) / 2
		kept, err := try(max(1, middle))
		if err != nil {
			return nil, err
		}
		if kept {
			low = middle
		} else {
			high = middle
		}
	}
	out.HighestRate = low
	return out, nil
}
