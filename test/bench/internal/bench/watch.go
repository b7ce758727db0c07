package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errTooLate means that the preparation took longer than was foreseen: what should have come due while it was watched came due before.
var errTooLate = errors.New("the preparation outlasted the lead")

// watch says what is to be watched, and how it is known to be over.
type watch struct {
	name  string // for progress and profiles
	group byte   // of the arrivals that count
	work  workload
	ready time.Time // by when the preparation must be over: before the first claim
	begin time.Time // when accounts are opened
	until time.Time // when accounts are closed; zero: when everything is done
	parts parts
	// patience is how long after the last due time everything must be done; what is not counts as missing.
	patience time.Duration
	// done counts the runs whose record is committed; finished tells when the last one was.
	done     func(ctx context.Context) (int, error)
	finished func(ctx context.Context) (time.Time, error)
	// failures counts the runs that did not succeed by their reason; nil: the contender ends with the first one.
	failures func(ctx context.Context) (map[string]int, error)
	// during is called at the first due time, beside the watching; nil: nothing is.
	during func(ctx context.Context) error
	seen   func(arrivals) // gets everything that came; nil: nobody asks
}

// parts names the processes that every installation and contender shares.
func (l *lab) parts() parts {
	p := parts{sink: l.sink.pid()}
	if pid, err := l.cluster.Pid(); err == nil {
		p.postgres = pid
	}
	return p
}

// watch lets a workload happen and returns what it was like.
func (l *lab) watch(ctx context.Context, w watch) (Measure, error) {
	if time.Now().After(w.ready) {
		return Measure{}, errTooLate
	}
	if _, err := l.sink.take(ctx); err != nil { // What came before does not count.
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
	o := observation{from: w.work.Due, to: w.work.end(), expected: w.work.Jobs}
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
	if o.finished.IsZero() && len(o.came) > 0 { // Nothing is recorded: it is over when the last request has come.
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

// pass waits until everything is done, or patience is over, and returns the accounts and how much is done.
func (l *lab) pass(ctx context.Context, w watch) (used usage, completed int, err error) {
	if !w.until.IsZero() {
		if !await(ctx, w.until) {
			return used, 0, ctx.Err()
		}
		if used, err = w.parts.usage(); err != nil && !errors.Is(err, errNoProc) {
			return used, 0, err
		}
	}
	limit, still := time.Until(w.work.end())+w.patience, stillness{from: w.work.end()}
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
		still = stillness{from: time.Now()}
		err = poll(ctx, w.patience, func() (bool, error) {
			n, err := w.done(ctx)
			return n >= w.work.Jobs, errors.Join(err, still.sees(n))
		})
	}
	if err != nil && !errors.Is(err, errImpatient) { // The measure tells what is missing.
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

// stillTime is how long nothing may happen before what has not happened is taken for missing: longer than a run that hangs and is
// tried again.
const stillTime = 20 * time.Second

// stillness notices that a count has come to its end.
type stillness struct {
	from  time.Time // before it nothing has to happen
	count int
	since time.Time // when the count was seen first
}

// sees takes in a count. The error is [errImpatient] when it has been the same for too long.
func (s *stillness) sees(count int) error {
	now := time.Now()
	if count != s.count || now.Before(s.from) || s.since.IsZero() {
		s.count, s.since = count, now
	}
	if now.Sub(s.since) > stillTime {
		return errImpatient
	}
	return nil
}
