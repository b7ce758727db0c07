package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rubato/client"
)

// Contest says what a bench of several contenders is made of.
type Contest struct {
	Host

	Rounds  int    // each contender runs once in each; the medians are reported
	Callers int    // connections that the ceilings call over
	Alone   bool   // leave the contenders out
	River   string // path of the program that runs River; empty: it is left out
}

// Burst lets many endpoints come due at one instant.
type Burst struct {
	Contest

	Endpoints int
	Workers   int
}

// contender does a round in its own way.
type contender struct {
	name    string
	perform func(ctx context.Context) (Measure, error)
}

// Run measures.
func (b Burst) Run(ctx context.Context) (_ Report, err error) {
	l, err := openLab(ctx, b.Host)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, l.close(context.WithoutCancel(ctx))) }()
	r, err := b.Contest.hold(ctx, l, workload{Jobs: b.Endpoints}, func(ctx context.Context) (Measure, error) {
		return l.burst(ctx, b.Endpoints, b.Workers)
	})
	r.Command, r.Config["endpoints"], r.Config["workers"] = "burst", b.Endpoints, b.Workers
	return r, err
}

// contenders returns who takes part in a round, and why others do not.
func (c Contest) contenders(ctx context.Context, l *lab, w workload, rubato func(ctx context.Context) (Measure, error)) ([]contender, []string) {
	list, notes := []contender{{contenderRubato, rubato}}, []string(nil)
	if c.Alone {
		return list, notes
	}
	add := func(r rival) {
		list = append(list, contender{r.name, func(ctx context.Context) (Measure, error) { return r.perform(ctx, l, w) }})
	}
	if w.Spacing == 0 { // The bare client knows no due times.
		add(bareClient(c.Callers))
	}
	add(idealPipeline(c.Callers))
	if r, absent := l.river(ctx, c.Callers); absent == "" {
		add(r)
	} else {
		notes = append(notes, absent)
	}
	return list, notes
}

// hold lets every contender have its turn with a workload in every round.
func (c Contest) hold(ctx context.Context, l *lab, w workload, rubato func(ctx context.Context) (Measure, error)) (Report, error) {
	list, notes := c.contenders(ctx, l, w, rubato)
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
	r.Config = map[string]any{"rounds": c.Rounds, "callers": c.Callers, "settings": c.Settings, "postgres": serverSettings()}
	return r, err
}

// burst lets endpoints of Rubato come due at one instant.
func (l *lab) burst(ctx context.Context, n, workers int) (Measure, error) {
	return persistently(l, contenderRubato, func(stretch time.Duration) (_ Measure, err error) {
		in, err := l.install(ctx, nil)
		if err != nil {
			return Measure{}, err
		}
		defer func() { err = errors.Join(err, in.close(ctx)) }()
		warm := max(200, n/20)
		rate, err := in.warm(ctx, warm)
		if err != nil {
			return Measure{}, err
		}
		w := workload{Jobs: n, Due: soon(stretch * in.lead(n, rate))}
		if err := in.fill(ctx, w, once); err != nil {
			return Measure{}, err
		}
		if err := in.startWorkers(ctx, workers, warm); err != nil {
			return Measure{}, err
		}
		return l.watch(ctx, in.watch(w))
	})
}

// startTime is how long workers may take to start and to run what warms them up.
const startTime = 4 * time.Second

// lead returns how long before the first due time endpoints must begin to be registered: as long as that takes at a rate, half as much
// again, and the time that workers need before the first claim.
func (in *installation) lead(n int, rate float64) time.Duration {
	return time.Duration(1.5*float64(n)/rate*float64(time.Second)) + in.settings.Worker.Horizon + startTime
}

// warm registers endpoints that run as soon as there are workers, and returns how many can be registered in a second. What is
// measured later finds connections, caches and plans as they are in a program that has run for a while.
func (in *installation) warm(ctx context.Context, n int) (rate float64, err error) {
	r, err := in.registrar(registerConns)
	if err != nil {
		return 0, err
	}
	done, err := r.register(ctx, n, func(i int) client.EndpointSpec {
		return in.db.lab.endpoint(groupWarm, i, once, time.Time{})
	})
	return float64(n) / done.span.Seconds(), err
}

// fill registers an endpoint for each job of a workload.
func (in *installation) fill(ctx context.Context, w workload, every time.Duration) error {
	r, err := in.registrar(registerConns)
	if err != nil {
		return err
	}
	_, err = r.register(ctx, w.Jobs, func(i int) client.EndpointSpec {
		return in.db.lab.endpoint(groupPlain, i, every, w.dueOf(i))
	})
	return errors.Join(err, in.db.settle(ctx))
}

// watch returns how to watch a workload of endpoints that come due once.
func (in *installation) watch(w workload) watch {
	done := "SELECT count(*) FROM runs WHERE scheduled_for >= $1 AND scheduled_for < $2"
	out := watch{
		name: contenderRubato, group: groupPlain, work: w, parts: in.parts(), patience: patienceFor(w),
		begin:    w.Due.Add(-in.settings.Worker.Horizon - time.Second),
		done:     func(ctx context.Context) (int, error) { return in.db.number(ctx, done, w.Due, w.end()) },
		finished: func(ctx context.Context) (time.Time, error) { return in.db.lastCommit(ctx, "runs") },
	}
	if in.db.lab.Profiles != "" {
		out.during = func(ctx context.Context) error { return in.profile(ctx, in.db.name, profileSpan(w)) }
	}
	return out
}

// profileSpan returns how long a workload is profiled: as long as it will take at the speed that is aimed at.
func profileSpan(w workload) time.Duration {
	const aim = 8000 // runs a second, in a burst
	if w.Spacing == 0 {
		return time.Duration(w.Jobs) * time.Second / aim
	}
	return w.end().Sub(w.Due)
}
