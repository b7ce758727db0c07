package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The contenders, in the order of a round.
const (
	contenderBare   = "bareClient"
	contenderIdeal  = "idealPipeline"
	contenderFenced = "fencedPipeline"
	contenderRubato = "rubato"
	contenderRiver  = "river"
)

func contenders() []string {
	return []string{contenderBare, contenderIdeal, contenderFenced, contenderRubato, contenderRiver}
}

// contender runs a round.
type contender struct {
	name    string
	perform func(ctx context.Context) (Measure, error)
}

// peer is a contender other than Rubato: a process with a table of its own.
type peer struct {
	name    string
	records records // empty for a rival without a table
	callers int
	// prepare is the time to prepare its database besides the jobs.
	prepare time.Duration
	// lead is how long before the first due time it starts.
	lead  time.Duration
	fill  func(ctx context.Context, d *database, t task) error
	start func(ctx context.Context, l *environment, t task) (*process, error)
}

func bareClient(callers int) peer {
	return peer{
		name:    contenderBare,
		callers: callers,
		lead:    time.Second,
		start: func(ctx context.Context, l *environment, t task) (*process, error) {
			return l.start(ctx, roleBare, t, nil)
		},
	}
}

func idealPipeline(callers int) peer {
	return peer{
		name:    contenderIdeal,
		records: records{"ideal_runs", "planned_at >= $1 AND planned_at < $2"},
		callers: callers,
		prepare: time.Second,
		lead:    pipelineAhead + time.Second,
		fill:    fillIdeal,
		start: func(ctx context.Context, l *environment, t task) (*process, error) {
			return l.start(ctx, roleIdeal, t, nil)
		},
	}
}

// fillRate is the minimum number of jobs that are prepared per second. If the preparation is
// slower, the round is repeated with a longer lead.
const fillRate = 10_000

// perform runs a rival with a workload, and chooses the first due time.
func (r peer) perform(ctx context.Context, l *environment, w workload) (Measure, error) {
	lead := r.prepare + r.lead + time.Duration(w.Jobs)*time.Second/fillRate
	return persistently(l, r.name, func(stretch int) (Measure, error) {
		w.Due = soon(time.Duration(stretch) * lead)
		return r.attempt(ctx, l, w)
	})
}

// persistently repeats a round with a longer lead if its preparation took too long.
func persistently[T any](l *environment, name string, try func(stretch int) (T, error)) (T, error) {
	const most = 4
	for stretch := 1; ; stretch *= 2 {
		m, err := try(stretch)
		if !errors.Is(err, errTooLate) || stretch == most {
			return m, err
		}
		l.Progress.Say("  the preparation of %s took too long; again, with twice the time for it", name)
	}
}

func (r peer) attempt(ctx context.Context, l *environment, w workload) (_ Measure, err error) {
	t := task{
		workload: w,
		Target:   l.sink.target(groupPlain, 0),
		Callers:  r.callers,
	}
	t.Target = t.Target[:len(t.Target)-1] // without the number
	watched := watch{
		name:     r.name,
		group:    groupPlain,
		work:     w,
		parts:    l.parts(),
		patience: patienceFor(w),
		ready:    w.Due.Add(-r.lead / 2),
		begin:    w.Due.Add(-r.lead / 2),
	}
	if w.Span > 0 { // A steady load has no start and end of its own.
		watched.begin, watched.until = w.Due, w.end()
	}
	if r.records.table == "" {
		watched.parts.postgres = 0
		watched.done = l.sink.count
		watched.finished = func(context.Context) (time.Time, error) { return time.Time{}, nil }
	} else {
		d, err := l.newDatabase(ctx)
		if err != nil {
			return Measure{}, err
		}
		defer func() { err = errors.Join(err, d.drop(ctx)) }()
		t.Database = d.url()
		if err := errors.Join(r.fill(ctx, d, t), d.settle(ctx)); err != nil {
			return Measure{}, err
		}
		watched.done = func(ctx context.Context) (int, error) { return d.count(ctx, r.records, w) }
		watched.finished = func(ctx context.Context) (time.Time, error) { return d.lastCommit(ctx, r.records, w) }
	}
	if time.Now().After(w.Due.Add(-r.lead)) {
		return Measure{}, errTooLate
	}
	p, err := r.start(ctx, l, t)
	if err != nil {
		return Measure{}, fmt.Errorf("starting %s: %w", r.name, err)
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	watched.parts.workers = []*process{p}
	return l.watch(ctx, watched)
}

// patienceFor returns the timeout of a workload after its last due time. It assumes 200 runs per
// second, which every contender exceeds.
func patienceFor(w workload) time.Duration {
	return 20*time.Second + time.Duration(w.Jobs)*time.Second/200
}
