package bench

import (
	"context"
	"errors"
	"fmt"
)

// Contest configures a comparison of several contenders.
type Contest struct {
	Host

	// Rounds is the number of runs of each contender; medians are reported.
	Rounds int
	// Callers is the number of connections of the ceilings.
	Callers int
	// Alone leaves the other contenders out.
	Alone bool
	// River is the path of the program that runs River; empty: it is left out.
	River string
}

// Burst measures endpoints that all come due at one instant.
type Burst struct {
	Contest

	Endpoints int
	Workers   int
}

// Run measures a burst in every round.
func (b Burst) Run(ctx context.Context) (_ Report, err error) {
	l, err := openLab(ctx, b.Host)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, l.close(context.WithoutCancel(ctx))) }()
	r, err := b.hold(ctx, l, workload{Jobs: b.Endpoints}, func(ctx context.Context, fenced int) (Measure, error) {
		return l.burstBeside(ctx, start{
			endpoints: b.Endpoints,
			workers:   b.Workers,
			fenced:    fenced,
		}, sideLoad{})
	})
	if err != nil {
		return Report{}, err
	}
	r.Command, r.Config["endpoints"], r.Config["workers"] = "burst", b.Endpoints, b.Workers
	return r, nil
}

// own runs a round with Rubato: with workers, or with a fenced pipeline if callers is not 0.
type own func(ctx context.Context, callers int) (Measure, error)

// contenders returns the contenders of a round, and notes about those that are left out.
func (c Contest) contenders(ctx context.Context, l *environment, w workload, product own) ([]contender, []string) {
	list := []contender{{contenderRubato, func(ctx context.Context) (Measure, error) { return product(ctx, 0) }}}
	var notes []string
	if c.Alone {
		return list, notes
	}
	add := func(r peer) {
		list = append(list, contender{r.name, func(ctx context.Context) (Measure, error) { return r.perform(ctx, l, w) }})
	}
	if w.Span == 0 { // The bare client ignores due times.
		add(bareClient(c.Callers))
	}
	add(idealPipeline(c.Callers))
	list = append(list, contender{contenderFenced, func(ctx context.Context) (Measure, error) { return product(ctx, c.Callers) }})
	if r, absent := l.river(ctx, c.Callers); absent == "" {
		add(r)
	} else {
		notes = append(notes, absent)
	}
	return list, notes
}

// hold runs every contender with a workload in every round.
func (c Contest) hold(ctx context.Context, l *environment, w workload, product own) (Report, error) {
	list, notes := c.contenders(ctx, l, w, product)
	rounds := map[string][]Measure{}
	for n := range c.Rounds {
		for _, who := range list {
			l.Progress.Say("round %d of %d: %s", n+1, c.Rounds, who.name)
			m, err := who.perform(ctx)
			if err != nil {
				return Report{}, fmt.Errorf("round %d of %s: %w", n+1, who.name, err)
			}
			l.Progress.Say("  %.0f runs/s, lag p50 %.1f, p99 %.1f ms, %.3f CPU s per 1000", m.RunsPerSecond, m.StartLagMs.P50, m.StartLagMs.P99,
				m.CPU.Worker+m.CPU.Postgres)
			rounds[who.name] = append(rounds[who.name], m)
		}
	}
	machine, err := l.machine(ctx)
	r := reportOf(rounds, machine)
	r.Notes = notes
	r.Config = c.config(l)
	return r, err
}

// config describes the configuration of the measurement.
func (c Contest) config(l *environment) map[string]any {
	return map[string]any{"rounds": c.Rounds, "callers": c.Callers, "settings": l.Settings, "postgres": serverSettings()}
}

// burst measures a burst on Rubato.
func (l *environment) burst(ctx context.Context, n, workers int) (Measure, error) {
	return l.burstBeside(ctx, start{endpoints: n, workers: workers}, sideLoad{})
}

// burstBeside measures a burst on Rubato while other load runs.
func (l *environment) burstBeside(ctx context.Context, s start, other sideLoad) (Measure, error) {
	return persistently(l, s.contender(), func(stretch int) (_ Measure, err error) {
		in, err := l.install(ctx, nil)
		if err != nil {
			return Measure{}, err
		}
		defer func() { err = errors.Join(err, in.close(ctx)) }()
		w := workload{Jobs: s.endpoints}
		s.work, s.every, s.stretch, s.extra = &w, once, stretch, other.extra
		if err := in.begin(ctx, s); err != nil {
			return Measure{}, err
		}
		watched := in.watch(w)
		watched.seen = other.seen
		return l.watch(ctx, watched)
	})
}
