package bench

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// pipelineBatch is how many rows one statement claims or records: trials show no gain from more.
	pipelineBatch = 500
	// pipelineAhead is how far ahead of their due time rows are claimed.
	pipelineAhead = time.Second
	// pipelineIdle is how long the claimer rests when it found less than it could take.
	pipelineIdle = 50 * time.Millisecond
	// pipelineStart is how long a job that is due may wait for others to be started with.
	pipelineStart = 2 * time.Millisecond
	// pipelineGather is how long a result may wait for others to be recorded with.
	pipelineGather = 5 * time.Millisecond
	// pipelineWriters is how many statements of a kind write at once: while one waits for the disk, the next is being written.
	pipelineWriters = 3
)

// ledger is where a pipeline keeps its jobs, and what came of them.
type ledger interface {
	// claim takes jobs that are due soon, and nobody else does.
	claim(ctx context.Context) ([]job, error)
	// record writes what came of jobs, and when they are due again.
	record(ctx context.Context, batch []outcome) error
}

// starter is a ledger that wants to be asked before jobs are called.
type starter interface {
	// start returns which of the jobs that have come due may be called.
	start(ctx context.Context, batch []job) ([]job, error)
}

// outcome is how a call ended.
type outcome struct {
	job

	answer

	started, finished time.Time
}

// pipeline claims due jobs in batches, calls each at its due time, and records the results in batches.
type pipeline struct {
	ledger  ledger
	callers int
	client  *caller
	claimed chan []job
	due     chan job
	ready   chan job // what is due and started; the same as due where nobody asks for starts
	results chan outcome
}

func newPipeline(l ledger, callers int) *pipeline {
	p := &pipeline{
		ledger: l, callers: callers, client: newCaller(callers), claimed: make(chan []job, 4), ready: make(chan job, callers),
		results: make(chan outcome, 4*pipelineBatch),
	}
	p.due = p.ready
	if _, asks := l.(starter); asks {
		p.due = make(chan job, callers)
	}
	return p
}

// run works until ctx ends. It does not drain: when it is stopped, everything has been recorded.
func (p *pipeline) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.claimLoop(ctx) })
	group.Go(func() error { return p.waitLoop(ctx) })
	for range p.callers {
		group.Go(func() error { return p.callLoop(ctx) })
	}
	for range pipelineWriters {
		if s, asks := p.ledger.(starter); asks {
			group.Go(func() error { return p.startLoop(ctx, s) })
		}
		group.Go(func() error { return p.recordLoop(ctx) })
	}
	return group.Wait()
}

// claimLoop claims as long as the batches before are taken.
func (p *pipeline) claimLoop(ctx context.Context) error {
	for {
		batch, err := p.ledger.claim(ctx)
		if err != nil {
			return err
		}
		if len(batch) > 0 {
			slices.SortFunc(batch, func(a, b job) int { return a.due.Compare(b.due) })
			select {
			case p.claimed <- batch:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if len(batch) < pipelineBatch && !await(ctx, time.Now().Add(pipelineIdle)) {
			return ctx.Err()
		}
	}
}

// waitLoop hands each job on when it is due.
func (p *pipeline) waitLoop(ctx context.Context) error {
	for {
		select {
		case batch := <-p.claimed:
			for _, j := range batch {
				if !await(ctx, j.due) {
					return ctx.Err()
				}
				select {
				case p.due <- j:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *pipeline) callLoop(ctx context.Context) error {
	for {
		select {
		case j := <-p.ready:
			started := time.Now()
			answer, err := p.client.call(ctx, j)
			if err != nil {
				return err
			}
			select {
			case p.results <- outcome{job: j, answer: answer, started: started, finished: time.Now()}:
			case <-ctx.Done(): // Nobody may record any more.
				return ctx.Err()
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// startLoop starts what is due by now.
func (p *pipeline) startLoop(ctx context.Context, l starter) error {
	for {
		batch, err := gather(ctx, p.due, pipelineStart)
		if err != nil {
			return err
		}
		if batch, err = l.start(ctx, batch); err != nil {
			return err
		}
		for _, j := range batch {
			select {
			case p.ready <- j:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// recordLoop records what it can gather within a moment.
func (p *pipeline) recordLoop(ctx context.Context) error {
	for {
		batch, err := gather(ctx, p.results, pipelineGather)
		if err != nil {
			return err
		}
		if err := p.ledger.record(ctx, batch); err != nil {
			return err
		}
	}
}

// gather returns what comes within a moment after the first.
func gather[T any](ctx context.Context, from <-chan T, moment time.Duration) ([]T, error) {
	var batch []T
	select {
	case first := <-from:
		batch = append(batch, first)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	over := time.NewTimer(moment)
	defer over.Stop()
	for len(batch) < pipelineBatch {
		select {
		case next := <-from:
			batch = append(batch, next)
		case <-over.C:
			return batch, nil
		}
	}
	return batch, nil
}
