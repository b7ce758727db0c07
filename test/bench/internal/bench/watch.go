package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errTooLate means that the preparation took too long, so that due times passed before the
// measurement.
var errTooLate = errors.New("the preparation outlasted the lead")

// watch configures the observation of a workload, and detects its end.
type watch struct {
	name  string // for progress and profiles
	group byte   // of the arrivals that count
	work  workload
	ready time.Time // deadline of the preparation, before the first claim
	begin time.Time // when the accounts open
	until time.Time // when the accounts close; zero: when all runs are done
	parts parts
	// patience is the timeout after the last due time. Runs that are not done by then count as
	// missing.
	patience time.Duration
	// done counts the runs with a committed record; finished returns the time of the last commit.
	done     func(ctx context.Context) (int, error)
	finished func(ctx context.Context) (time.Time, error)
	// failures counts the failed runs by reason; nil: the contender ends at the first failure.
	failures func(ctx context.Context) (map[string]int, error)
	// during is called at the first due time, in parallel; nil: none.
	during func(ctx context.Context) error
	// seen gets all arrivals; nil: not needed.
	seen func(arrivals)
}

// parts returns the processes that all installations and contenders share.
func (l *environment) parts() parts {
	p := parts{sink: l.sink.pid()}
	if pid, err := l.cluster.Pid(); err == nil {
		p.postgres = pid
	}
	return p
}

// watch observes a workload and returns its measure.
func (l *environment) watch(ctx context.Context, w watch) (Measure, error) {
	if time.Now().After(w.ready) {
		return Measure{}, errTooLate
	}
	if _, err := l.sink.take(ctx); err != nil { // Earlier arrivals do not count.
		return Measure{}, err
	}
	if !await(ctx, w.begin) {
		return Measure{}, ctx.Err()
	}
	before, err := w.parts.usage()
	if err != nil && !errors.Is(err, errNoProc) {
		return Measure{}, err
	}
	beside := make(chan error, 1)
	go func() { beside <- w.beside(ctx) }()
	o := observation{
		from:     w.work.Due,
		to:       w.work.end(),
		expected: w.work.Jobs,
	}
	o.used, o.completed, err = l.pass(ctx, w)
	if err := errors.Join(err, <-beside); err != nil {
		return Measure{}, fmt.Errorf("watching %s: %w", w.name, err)
	}
	o.used = o.used.minus(before)
	if o.finished, err = w.finished(ctx); err != nil {
		return Measure{}, err
	}
	if o.peak, err = w.parts.peak(); err != nil && !errors.Is(err, errNoProc) {
		return Measure{}, err
	}
	came, err := l.sink.take(ctx)
	if err != nil {
		return Measure{}, err
	}
	o.came = arrivals(came).of(w.group, o.from, o.to)
	if w.seen != nil {
		w.seen(came)
	}
	if o.finished.IsZero() && len(o.came) > 0 { // Without records, the end is the last request.
		o.finished = o.came.last()
	}
	m := o.measure()
	if w.failures != nil {
		m.Failures, err = w.failures(ctx)
	}
	return m, err
}

// beside calls during at the first due time.
func (w watch) beside(ctx context.Context) error {
	const head = 100 * time.Millisecond // A profile takes a moment to begin.
	if w.during == nil || !await(ctx, w.work.Due.Add(-head)) {
		return nil
	}
	return w.during(ctx)
}

// pass waits until all runs are done or the timeout ends, and returns the accounts and the number
// of done runs.
func (l *environment) pass(ctx context.Context, w watch) (used usage, completed int, err error) {
	if !w.until.IsZero() {
		if !await(ctx, w.until) {
			return used, 0, ctx.Err()
		}
		if used, err = w.parts.usage(); err != nil && !errors.Is(err, errNoProc) {
			return used, 0, err
		}
	}
	limit, still := time.Until(w.work.end())+w.patience, idleDetector{from: w.work.end()}
	err = poll(ctx, limit, func() (bool, error) {
		for _, p := range w.parts.workers {
			if err := p.alive(); err != nil {
				return false, err
			}
		}
		came, err := l.sink.count(ctx)
		if err != nil {
			return false, err
		}
		l.Progress.bar(w.name, came, w.work.Jobs)
		return came >= w.work.Jobs, still.sees(came)
	})
	if err == nil {
		still = idleDetector{from: time.Now()}
		err = poll(ctx, w.patience, func() (bool, error) {
			n, err := w.done(ctx)
			return n >= w.work.Jobs, errors.Join(err, still.sees(n))
		})
	}
	if err != nil && !errors.Is(err, errImpatient) { // The measure counts the missing runs.
		return used, 0, err
	}
	if w.until.IsZero() {
		if used, err = w.parts.usage(); err != nil && !errors.Is(err, errNoProc) {
			return used, 0, err
		}
	}
	completed, err = w.done(ctx)
	return used, completed, err
}

// stillTime is how long a count must be unchanged to be final. It exceeds the duration of a run
// that hangs and is retried.
const stillTime = 20 * time.Second

// idleDetector detects that a count no longer changes.
type idleDetector struct {
	from  time.Time // the count may be unchanged before it
	count int
	since time.Time // when the count was first seen
}

// sees takes in a count. The error is [errImpatient] if the count was unchanged for stillTime.
func (s *idleDetector) sees(count int) error {
	now := time.Now()
	if count != s.count || now.Before(s.from) || s.since.IsZero() {
		s.count, s.since = count, now
	}
	if now.Sub(s.since) > stillTime {
		return errImpatient
	}
	return nil
}
