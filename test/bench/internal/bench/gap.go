package bench

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

// Gap measures the regularity of the calls of interval endpoints.
type Gap struct {
	Contest

	Endpoints int
	Every     time.Duration
	For       time.Duration
}

// Run measures the gaps. Only Rubato takes part, because ceilings and peer have no intervals.
func (g Gap) Run(ctx context.Context) (_ Report, err error) {
	l, err := openLab(ctx, g.Host)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, l.close(context.WithoutCancel(ctx))) }()
	s := Steady{
		Rate:    max(1, int(float64(g.Endpoints)/g.Every.Seconds())),
		For:     g.For,
		Every:   g.Every,
		Workers: 1,
	}
	g.Alone = true
	var spreads []Spread
	r, err := g.hold(ctx, l, s.workload(), func(ctx context.Context, _ int) (Measure, error) {
		s.seen = func(list arrivals) { spreads = append(spreads, spreadOf(list.gapErrors(groupPlain, g.Every))) }
		return l.steady(ctx, s)
	})
	r.Command, r.GapErrorMs = "steady --gap", new(medianSpread(spreads))
	r.Config["endpoints"], r.Config["intervalMs"], r.Config["seconds"] = g.Endpoints, g.Every.Milliseconds(), g.For.Seconds()
	return r, err
}

// gapErrors returns the deviation of each gap between two consecutive calls from the interval of
// the endpoint.
func (list arrivals) gapErrors(group byte, every time.Duration) []time.Duration {
	sorted := slices.DeleteFunc(slices.Clone(list), func(a arrival) bool { return a.Group != group })
	slices.SortFunc(sorted, func(a, b arrival) int { return cmp.Or(cmp.Compare(a.N, b.N), cmp.Compare(a.At, b.At)) })
	var errs []time.Duration
	for i := 1; i < len(sorted); i++ {
		if a, b := sorted[i-1], sorted[i]; a.N == b.N {
			errs = append(errs, (time.Duration(b.At-a.At) - every).Abs())
		}
	}
	return errs
}

// medianSpread returns the medians over the rounds.
func medianSpread(list []Spread) Spread {
	return Spread{
		P50: median(list, func(s Spread) float64 { return s.P50 }),
		P90: median(list, func(s Spread) float64 { return s.P90 }),
		P99: median(list, func(s Spread) float64 { return s.P99 }),
		Max: median(list, func(s Spread) float64 { return s.Max }),
	}
}
