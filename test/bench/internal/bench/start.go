package bench

import (
	"context"
	"fmt"
	"time"

	"rubato/client"
)

// start configures the start of an installation under a workload.
type start struct {
	work      *workload // gets its first due time
	endpoints int       // one per first due time
	every     time.Duration
	workers   int
	fenced    int                                                           // callers of a fenced pipeline instead of workers; 0: workers
	stretch   int                                                           // factor of the estimated lead
	settle    time.Duration                                                 // from the start of the additional load to the first due time
	extra     func(ctx context.Context, in *installation, w workload) error // prepares additional load; nil: none
	hosts     int                                                           // hosts of the endpoints; 0: one
}

// contender names the contender of the installation.
func (s start) contender() string {
	if s.fenced > 0 {
		return contenderFenced
	}
	return contenderRubato
}

// begin registers the endpoints of a workload, and starts and warms up the workers.
func (in *installation) begin(ctx context.Context, s start) error {
	rate, err := in.probe(ctx)
	if err != nil {
		return err
	}
	warm := s.warmup()
	s.work.Due = soon(time.Duration(s.stretch)*in.lead(s.endpoints+warm.Jobs, rate) + warm.Span + warmMargin + s.settle)
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

// warmMargin separates the warm-up of a steady load from the measurement, because its last calls
// may be late.
const warmMargin = time.Second

// warmup returns the warm-up workload, which fills connection pools, caches and plans as in a
// long-running process. Its kind is that of the measured load: a burst, or the same rate.
func (s start) warmup() workload {
	w := workload{Jobs: warmups(s.endpoints)}
	if s.work.Span > 0 {
		w.Span = s.work.Span * time.Duration(w.Jobs) / time.Duration(s.work.Jobs)
	}
	return w
}

// warmups returns the number of warm-up endpoints for a number of measured ones.
func warmups(watched int) int { return max(200, watched/20) }

// warmed waits for the end of a warm-up.
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
		spec := in.db.lab.endpoint(groupPlain, i, s.every, s.work.dueOf(i))
		if s.hosts > 0 {
			spec.URL = in.db.lab.sink.targetAt(i%s.hosts, groupPlain, i)
		}
		return spec
	}); err != nil {
		return err
	}
	return in.db.settle(ctx)
}

// startTime is the estimated time to start and warm up workers.
const startTime = 4 * time.Second

// loadRate is the minimum number of endpoints imported per second. If the import is slower, the
// round is repeated with a longer lead.
const loadRate = 2000

// lead returns how long before the first due time the registration must begin: one and a half times
// the estimated duration, plus the start time of workers. The rate was measured with few endpoints
// and new connections, so it may be far too low.
func (in *installation) lead(n int, rate float64) time.Duration {
	return time.Duration(1.5*float64(n)/max(rate, loadRate)*float64(time.Second)) + in.settings.Worker.Horizon + startTime
}

// probe registers a few endpoints that never come due, and returns the rate of registrations per
// second.
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

// opens returns when the measurement of a workload begins. That is before the first claim, which
// looks a horizon ahead.
func (in *installation) opens(w workload) time.Time {
	return w.Due.Add(-in.settings.Worker.Horizon - time.Second)
}

// watch returns the observation of a workload.
func (in *installation) watch(w workload) watch {
	done := records{"runs", "status = 'succeeded' AND scheduled_for >= $1 AND scheduled_for < $2"}
	first := in.opens(w)
	out := watch{
		name:     in.name,
		group:    groupPlain,
		work:     w,
		ready:    first,
		begin:    first,
		parts:    in.parts(),
		patience: patienceFor(w),
		done:     func(ctx context.Context) (int, error) { return in.db.count(ctx, done, w) },
		failures: func(ctx context.Context) (map[string]int, error) { return in.db.failures(ctx, w) },
		finished: func(ctx context.Context) (time.Time, error) { return in.db.lastCommit(ctx, done, w) },
	}
	if w.Span > 0 { // A steady load has no start and end of its own.
		out.begin, out.until = w.Due, w.end()
	}
	if in.db.lab.Profiles != "" && in.name == contenderRubato { // The fenced pipeline has no profile server.
		out.during = func(ctx context.Context) error { return in.profile(ctx, in.db.name, profileSpan(w)) }
	}
	return out
}

// profileSpan returns the duration of the profile: that of the workload at the target speed.
func profileSpan(w workload) time.Duration {
	const aim = 8000 // runs per second, in a burst
	if w.Span == 0 {
		return time.Duration(w.Jobs) * time.Second / aim
	}
	return w.end().Sub(w.Due)
}
