package bench

import (
	"context"
	"fmt"
	"time"

	"rubato/client"
)

// start says what an installation begins with.
type start struct {
	work      *workload // gets its first due time
	endpoints int       // one for each of the first due times
	every     time.Duration
	workers   int
	fenced    int                                                           // callers of a fenced pipeline in the place of workers; 0: there is none
	stretch   int                                                           // how much of the foreseen time there is
	extra     func(ctx context.Context, in *installation, w workload) error // prepares what happens beside it; nil: nothing does
}

// contender names who works in an installation.
func (s start) contender() string {
	if s.fenced > 0 {
		return contenderFenced
	}
	return contenderRubato
}

// begin registers endpoints whose due times are those of a workload, and starts the workers, warmed up.
func (in *installation) begin(ctx context.Context, s start) error {
	rate, err := in.probe(ctx)
	if err != nil {
		return err
	}
	warm := s.warmup()
	s.work.Due = soon(time.Duration(s.stretch)*in.lead(s.endpoints+warm.Jobs, rate) + warm.Span + warmMargin)
	if warm.Due = time.Now(); warm.Span > 0 {
		warm.Due = in.opens(*s.work).Add(-warm.Span - warmMargin)
	}
	if err := in.fill(ctx, s, warm); err != nil {
		return err
	}
	if s.extra != nil {
		if err := s.extra(ctx, in, *s.work); err != nil {
			return err
		}
	}
	if in.name = s.contender(); in.name == contenderFenced {
		err = in.startFenced(ctx, s.fenced)
	} else {
		err = in.startWorkers(ctx, s.workers)
	}
	if err != nil {
		return err
	}
	return in.warmed(ctx, warm)
}

// warmMargin lies between a warm-up at a rate and what is watched, in which the last of it can be late.
const warmMargin = time.Second

// warmup returns what is done before anything is watched, so that it finds connections, caches and plans as they are in a program that
// has run for a while: in the same way, a burst by a burst and a rate at that rate.
func (s start) warmup() workload {
	w := workload{Jobs: warmups(s.endpoints)}
	if s.work.Span > 0 {
		w.Span = s.work.Span * time.Duration(w.Jobs) / time.Duration(s.work.Jobs)
	}
	return w
}

// warmups returns how many come before so many that are watched.
func warmups(watched int) int { return max(200, watched/20) }

// warmed waits until a warm-up is over.
func (in *installation) warmed(ctx context.Context, warm workload) error {
	err := poll(ctx, max(0, time.Until(warm.end()))+startPatience, func() (bool, error) {
		came, err := in.db.lab.sink.count(ctx)
		return came >= warm.Jobs, err
	})
	if err != nil {
		return fmt.Errorf("waiting for the workers to warm up: %w", err)
	}
	return nil
}

// fill registers the endpoints of a start and of its warm-up.
func (in *installation) fill(ctx context.Context, s start, warm workload) error {
	r, err := in.registrar(registerConns)
	if err != nil {
		return err
	}
	if _, err = r.load(ctx, warm.Jobs, func(i int) client.EndpointSpec {
		return in.db.lab.endpoint(groupWarm, i, once, warm.dueOf(i))
	}); err != nil {
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

// probe registers a few endpoints that never come due, and returns how many can be registered in a second.
func (in *installation) probe(ctx context.Context) (rate float64, err error) {
	const few = 200
	r, err := in.registrar(registerConns)
	if err != nil {
		return 0, err
	}
	never := time.Now().Add(once)
	took, err := r.load(ctx, few, func(i int) client.EndpointSpec { return in.db.lab.endpoint(groupIdle, i, once, never) })
	return few / took.Seconds(), err
}

// opens returns when accounts of a workload are opened: the worker looks a horizon ahead, so before that.
func (in *installation) opens(w workload) time.Time {
	return w.Due.Add(-in.settings.Worker.Horizon - time.Second)
}

// watch returns how to watch a workload.
func (in *installation) watch(w workload) watch {
	done := records{"runs", "status = 'succeeded' AND scheduled_for >= $1 AND scheduled_for < $2"}
	first := in.opens(w)
	out := watch{
		name: in.name, group: groupPlain, work: w, ready: first, begin: first, parts: in.parts(), patience: patienceFor(w),
		done:     func(ctx context.Context) (int, error) { return in.db.count(ctx, done, w) },
		failures: func(ctx context.Context) (map[string]int, error) { return in.db.failures(ctx, w) },
		finished: func(ctx context.Context) (time.Time, error) { return in.db.lastCommit(ctx, done, w) },
	}
	if w.Span > 0 { // What goes on evenly has no begin and no end of its own.
		out.begin, out.until = w.Due, w.end()
	}
	if in.db.lab.Profiles != "" && in.name == contenderRubato { // The other has no server to ask.
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
