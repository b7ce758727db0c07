package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
)

// Soak loads an installation for a long time and detects leaks: growth of memory, goroutines,
// connections, file descriptors, and bloat of the tables that every run updates.
type Soak struct {
	Contest

	Rate    int           // calls per second
	Operate int           // API operations on endpoints per second; 0: none
	For     time.Duration // duration of the soak
	Sample  time.Duration // sample interval
	Workers int
	Hanging int // number of endpoints that hang until their timeout
}

// SoakReport is the result of [Soak].
type SoakReport struct {
	Seconds float64 `json:"seconds"`
	Samples int     `json:"samples"`
	Trends  []Trend `json:"trends"`
	Grows   bool    `json:"grows"` // whether any trend grows
}

// Run soaks once. A longer soak replaces several rounds.
func (s Soak) Run(ctx context.Context) (_ Report, err error) {
	l, err := openLab(ctx, s.Host)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, l.close(context.WithoutCancel(ctx))) }()
	l.Progress.Say("%d calls a second for %s, a look every %s", s.Rate, s.For, s.Sample)
	samples, m, err := s.soak(ctx, l)
	if err != nil {
		return Report{}, err
	}
	machine, err := l.machine(ctx)
	r := reportOf(map[string][]Measure{contenderRubato: {m}}, machine)
	r.Command, r.Config = "soak", s.config(l)
	r.Config["rate"], r.Config["operate"], r.Config["hanging"], r.Config["workers"] = s.Rate, s.Operate, s.Hanging, s.Workers
	r.Soak = samples.report(s.Sample)
	r.Soak.Seconds = s.For.Seconds()
	if m.Missing > 0 || m.StartLagMs.P99 > milliseconds(FindLag) {
		r.Notes = append(r.Notes, fmt.Sprintf("The machine did not keep up with %d calls a second: what grows may be work that waits.", s.Rate))
	}
	return r, err
}

// soak runs the load and the sampler.
func (s Soak) soak(ctx context.Context, l *environment) (*sampler, Measure, error) {
	var o *operator
	var samples *sampler
	calls := Steady{
		Rate:    s.Rate,
		For:     s.For,
		Every:   beyondHorizon,
		Workers: s.Workers,
	}
	calls.extra = func(ctx context.Context, in *installation, w workload) (err error) {
		samples = &sampler{in: in}
		if s.Hanging > 0 {
			if err := in.hang(ctx, s.Hanging, w.Due); err != nil {
				return err
			}
		}
		if s.Operate > 0 {
			o, err = in.operator(ctx, s.Operate)
		}
		return err
	}
	calls.during = func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return samples.run(ctx, s.Sample, s.For) })
		if s.Operate > 0 {
			group.Go(func() error { return o.run(ctx, int(float64(s.Operate)*s.For.Seconds())) })
		}
		return group.Wait()
	}
	m, err := l.steady(ctx, calls)
	return samples, m, err
}

// table returns the trends as a table.
func (r SoakReport) table() Table {
	t := Table{
		Title:  fmt.Sprintf("what %s of work left behind, in %d looks", time.Duration(r.Seconds*float64(time.Second)), r.Samples),
		Header: []string{"WHAT", "UNIT", "FIRST", "MEDIAN", "LAST", "MAX", "PER HOUR", "GROWS"},
	}
	for _, x := range r.Trends {
		t.Rows = append(t.Rows, []string{
			x.Name, x.Unit, figure(x.First), figure(x.Median), figure(x.Last), figure(x.Max), figure(x.PerHour), strconv.FormatBool(x.Grows),
		})
	}
	return t
}
