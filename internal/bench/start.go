package bench

import (
	"context"
	"time"

	"rubato/client"
)

// start says what an installation begins with.
type start struct {
	work      *workload // gets its first due time
	endpoints int       // one for each of the first due times
	every     time.Duration
	workers   int
	stretch   int                                                           // how much of the foreseen time there is
	extra     func(ctx context.Context, in *installation, w workload) error // prepares what happens beside it; nil: nothing does
}

// begin registers endpoints whose due times are those of a workload, and starts the workers, warmed up.
func (in *installation) begin(ctx context.Context, s start) error {
	warm := max(200, s.endpoints/20)
	rate, err := in.warm(ctx, warm)
	if err != nil {
		return err
	}
	s.work.Due = soon(time.Duration(s.stretch) * in.lead(s.endpoints, rate))
	if err := in.fill(ctx, s); err != nil {
		return err
	}
	if s.extra != nil {
		if err := s.extra(ctx, in, *s.work); err != nil {
			return err
		}
	}
	return in.startWorkers(ctx, s.workers, warm)
}

// fill registers the endpoints of a start.
func (in *installation) fill(ctx context.Context, s start) error {
	r, err := in.registrar(registerConns)
	if err != nil {
		return err
	}
	if _, err = r.load(ctx, s.endpoints, func(i int) client.EndpointSpec {
		return in.db.lab.endpoint(groupPlain, i, s.every, s.work.dueOf(i))
	}); err != nil {
		return err
	}
	return in.db.settle(ctx)
}

// startTime is how long workers may take to start and to run what warms them up.
const startTime = 4 * time.Second

// loadRate is how many endpoints are imported in a second at least; where it takes longer, everything is repeated with a longer lead.
const loadRate = 2000

// lead returns how long before the first due time endpoints must begin to be registered: as long as that takes at a rate, half as much
// again, and the time that workers need before the first claim. The rate was measured with few endpoints and over new connections, so
// it may be far too low.
func (in *installation) lead(n int, rate float64) time.Duration {
	return time.Duration(1.5*float64(n)/max(rate, loadRate)*float64(time.Second)) + in.settings.Worker.Horizon + startTime
}

// warm registers endpoints that run as soon as there are workers, and returns how many can be registered in a second. What is
// measured later finds connections, caches and plans as they are in a program that has run for a while.
func (in *installation) warm(ctx context.Context, n int) (rate float64, err error) {
	r, err := in.registrar(registerConns)
	if err != nil {
		return 0, err
	}
	now := time.Now()
	took, err := r.load(ctx, n, func(i int) client.EndpointSpec { return in.db.lab.endpoint(groupWarm, i, once, now) })
	return float64(n) / took.Seconds(), err
}

// watch returns how to watch a workload. The worker looks a horizon ahead, so its accounts are opened before that.
func (in *installation) watch(w workload) watch {
	done := records{"runs", "status = 'succeeded' AND scheduled_for >= $1 AND scheduled_for < $2"}
	first := w.Due.Add(-in.settings.Worker.Horizon - time.Second)
	out := watch{
		name: contenderRubato, group: groupPlain, work: w, ready: first, begin: first, parts: in.parts(), patience: patienceFor(w),
		done:     func(ctx context.Context) (int, error) { return in.db.count(ctx, done, w) },
		failures: func(ctx context.Context) (map[string]int, error) { return in.db.failures(ctx, w) },
		finished: func(ctx context.Context) (time.Time, error) { return in.db.lastCommit(ctx, done, w) },
	}
	if w.Span > 0 { // What goes on evenly has no begin and no end of its own.
		out.begin, out.until = w.Due, w.end()
	}
	if in.db.lab.Profiles != "" {
		out.during = func(ctx context.Context) error { return in.profile(ctx, in.db.name, profileSpan(w)) }
	}
	return out
}

// profileSpan returns how long a workload is profiled: as long as it will take at the speed that is aimed at.
func profileSpan(w workload) time.Duration {
	const aim = 8000 // runs a second, in a burst
	if w.Span == 0 {
		return time.Duration(w.Jobs) * time.Second / aim
	}
	return w.end().Sub(w.Due)
}
