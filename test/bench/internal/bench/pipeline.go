package bench

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// pipelineBatch is the batch size of claims and of records. Larger batches showed no gain.
	pipelineBatch = 500
	// pipelineAhead is how long before their due time rows are claimed.
	pipelineAhead = time.Second
	// pipelineIdle is the poll interval after a claim that was not full.
	pipelineIdle = 50 * time.Millisecond
	// pipelineStart is the maximum time that a due job waits for its start batch to fill.
	pipelineStart = 2 * time.Millisecond
	// pipelineGather is the maximum time that a result waits for its record batch to fill.
	pipelineGather = 5 * time.Millisecond
	// pipelineWriters is the number of concurrent writers per kind of statement, so that one can
	// send while another waits for the disk.
	pipelineWriters = 3
)

// ledger is the storage of a pipeline: jobs and their results.
type ledger interface {
	// claim takes jobs that are due soon, exclusively.
	claim(ctx context.Context) ([]job, error)
	// record stores results, and the next due times of their jobs.
	record(ctx context.Context, batch []outcome) error
}

// starter is a ledger that must confirm jobs before they are called.
type starter interface {
	// start returns the due jobs that may be called.
	start(ctx context.Context, batch []job) ([]job, error)
}

// outcome is the result of a call.
type outcome struct {
	job

	answer

	started, finished time.Time
}

// pipeline claims due jobs in batches, calls each at its due time, and records the results in
// batches.
type pipeline struct {
	ledger  ledger
	callers int
	client  *caller
	claimed chan []job
	due     chan job
	ready   chan job // started due jobs; the same channel as due for a ledger without starts
	results chan outcome
}

func newPipeline(l ledger, callers int) *pipeline {
	p := &pipeline{
		ledger:  l,
		callers: callers,
		client:  newCaller(callers),
		claimed: make(chan []job, 4),
		ready:   make(chan job, callers),
		results: make(chan outcome, 4*pipelineBatch),
	}
	p.due = p.ready
	if _, asks := l.(starter); asks {
		p.due = make(chan job, callers)
	}
	return p
}

// run works until ctx ends. It does not drain, because a bench stops it only after every result is
// recorded.
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

// claimLoop claims while the earlier batches are taken.
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

// waitLoop passes each job on at its due time.
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
			case p.results <- outcome{
				job:      j,
				answer:   answer,
				started:  started,
				finished: time.Now(),
			}:
			case <-ctx.Done(): // The recorders may have ended.
				return ctx.Err()
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// startLoop starts the due jobs in batches.
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

// recordLoop records results in batches.
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

// gather collects a batch: the first element, and those that follow within a short time.
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
