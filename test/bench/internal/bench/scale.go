package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Scale measures how throughput and claims scale with workers and endpoints.
type Scale struct {
	Contest

	Endpoints int   // of each burst
	Workers   []int // one burst per number; empty: no bursts
	Claims    Claims
}

// ScalePoint is a burst with a number of workers.
type ScalePoint struct {
	Workers int `json:"workers"`

	Measure
}

// Run measures the bursts and the claims. Only Rubato takes part.
func (s Scale) Run(ctx context.Context) (_ Report, err error) {
	l, err := openLab(ctx, s.Host)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, l.close(context.WithoutCancel(ctx))) }()
	rounds := map[int][]Measure{}
	for n := range s.Rounds {
		for _, workers := range s.Workers {
			l.Progress.Say("round %d of %d: a burst with %d workers", n+1, s.Rounds, workers)
			m, err := l.burst(ctx, s.Endpoints, workers)
			if err != nil {
				return Report{}, fmt.Errorf("a burst with %d workers: %w", workers, err)
			}
			l.Progress.Say("  %.0f runs/s, %d duplicates, %d missing", m.RunsPerSecond, m.Duplicates, m.Missing)
			rounds[workers] = append(rounds[workers], m)
		}
	}
	machine, err := l.machine(ctx)
	if err != nil {
		return Report{}, err
	}
	r := Report{
		Command: "scale",
		Machine: machine,
		Config:  s.config(l),
	}
	r.Config["endpoints"], r.Config["workers"], r.Config["registered"] = s.Endpoints, s.Workers, s.Claims.Registered
	for _, workers := range s.Workers {
		r.Scale = append(r.Scale, ScalePoint{Workers: workers, Measure: medianOf(rounds[workers])})
	}
	if len(r.Scale) > 0 {
		r.Measure = r.Scale[0].Measure
	}
	r.Claims, err = s.Claims.measure(ctx, l)
	return r, err
}

// Claims configures the measurement of the claim statement. Claimers only claim, and give each
// endpoint a new due time like the finish of its run would.
type Claims struct {
	Registered []int         // numbers of endpoints; empty: claims are not measured
	Claimed    []int         // numbers of endpoints that stay claimed
	Claimers   []int         // numbers of concurrent claimers
	Rounds     int           // of each measurement
	For        time.Duration // duration of each measurement
}

// ClaimPoint is the result of the claim statement under one load.
type ClaimPoint struct {
	Registered int    `json:"registered"`
	Claimed    int    `json:"claimed"`
	Claimers   int    `json:"claimers"`
	Snapshot   bool   `json:"snapshot"` // an old snapshot was open meanwhile, as during a backup
	Statements int    `json:"statements"`
	Milli      Spread `json:"ms"`
	// CPUMs is the CPU time of Postgres per claim and hand-back, in milliseconds. It is the figure
	// that other load on the machine disturbs least.
	CPUMs float64 `json:"postgresCpuMs"`
}

// measure measures every load. It skips loads that would claim more than half of the endpoints.
func (c Claims) measure(ctx context.Context, l *environment) ([]ClaimPoint, error) {
	var points []ClaimPoint
	for _, registered := range c.Registered {
		list, err := c.measureSize(ctx, l, registered)
		if err != nil {
			return nil, fmt.Errorf("claiming among %d endpoints: %w", registered, err)
		}
		points = append(points, list...)
	}
	return points, nil
}

func (c Claims) measureSize(ctx context.Context, l *environment, registered int) (points []ClaimPoint, err error) {
	l.Progress.Say("claims: filling in %d endpoints", registered)
	in, err := l.install(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, in.close(ctx)) }()
	if err := in.multiply(ctx, registered, overdue); err != nil {
		return nil, err
	}
	for _, claimed := range c.Claimed {
		for _, claimers := range c.Claimers {
			for _, snapshot := range []bool{false, true} {
				if claimed > registered/2 {
					continue
				}
				point := ClaimPoint{
					Registered: registered,
					Claimed:    claimed,
					Claimers:   claimers,
					Snapshot:   snapshot,
				}
				if err := c.measurePoint(ctx, in, &point); err != nil {
					return nil, err
				}
				l.Progress.Say("  %d claimed, %d claimers, snapshot %t: p50 %.2f ms, p99 %.2f ms", claimed, claimers, snapshot, point.Milli.P50, point.Milli.P99)
				points = append(points, point)
			}
		}
	}
	return points, nil
}

// measurePoint measures one load in every round, and returns the medians.
func (c Claims) measurePoint(ctx context.Context, in *installation, p *ClaimPoint) error {
	rounds := make([]ClaimPoint, max(1, c.Rounds))
	for n := range rounds {
		rounds[n] = *p
		if err := in.claims(ctx, &rounds[n], c.For); err != nil {
			return err
		}
		p.Statements += rounds[n].Statements
	}
	spreads := make([]Spread, len(rounds))
	for n, r := range rounds {
		spreads[n] = r.Milli
	}
	p.Milli, p.CPUMs = medianSpread(spreads), median(rounds, func(r ClaimPoint) float64 { return r.CPUMs })
	return nil
}
