package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"rubato/internal/claims"
	"rubato/internal/config"
	"rubato/internal/dispatch"
	"rubato/internal/dispatch/request"
	"rubato/internal/runs"
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/items"
	"rubato/internal/store/pg"
)

// fenced is the ledger of Rubato itself: the ideal pipeline plus every statement that the
// guarantees need. The difference between it and a worker is the worker's own overhead. It claims
// every run, also of endpoints that a worker would keep because their next due time is near.
type fenced struct {
	claims     *items.Claims
	executions *items.Executions
	worker     [16]byte
	lockTTL    time.Duration
}

// claimedJob is the claim of a job of this ledger.
type claimedJob struct {
	claim  claims.Claim
	target *request.Target
	run    dispatch.Started
}

// fencedFrom is the process of the fenced pipeline.
func fencedFrom(ctx context.Context, text []byte, r Role) error {
	t, err := taskOf[task](text)
	if err != nil {
		return err
	}
	settings, err := config.Load(r.Environ, config.Program{Required: []string{config.DatabaseURL}})
	if err != nil {
		return err
	}
	db, err := pg.Open(ctx, pg.Config{
		URL:             settings.Database.URL,
		MaxConns:        4,
		ApplicationName: contenderFenced,
	})
	if err != nil {
		return err
	}
	defer db.Close()
	l := fenced{
		claims:     items.NewClaims(db),
		executions: items.NewExecutions(endpointstore.NewStates(db, settings.Worker.Slots)),
		worker:     uuid.New(),
		lockTTL:    settings.Worker.LockTTL,
	}
	if _, err := l.executions.Beat(ctx, dispatch.Presence{
		ID:      l.worker,
		Name:    contenderFenced,
		Version: "bench",
		State:   dispatch.Active,
		Slots:   t.Callers,
	}); err != nil {
		return fmt.Errorf("registering the worker: %w", err)
	}
	p := newPipeline(l, t.Callers)
	p.client.keeps = true
	defer p.client.close()
	if err := r.tell(processMessage{}); err != nil {
		return err
	}
	return p.run(ctx)
}

func (l fenced) claim(ctx context.Context) ([]job, error) {
	list, _, err := l.claims.ClaimDue(ctx, claims.Request{
		Worker:  l.worker,
		Limit:   pipelineBatch,
		Horizon: pipelineAhead,
		LockTTL: l.lockTTL,
	})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	targets, err := l.executions.Targets(ctx, list)
	if err != nil {
		return nil, err
	}
	batch := make([]job, len(list))
	for i, c := range list {
		target := targets[c.EndpointID]
		if target == nil {
			return nil, fmt.Errorf("endpoint %x has no configuration that can be used", c.EndpointID)
		}
		batch[i] = job{
			url:        target.URL,
			due:        c.PlannedAt,
			claimedJob: &claimedJob{claim: c, target: target},
		}
	}
	return batch, nil
}

// start implements starter.
func (l fenced) start(ctx context.Context, batch []job) ([]job, error) {
	list, asked := make([]dispatch.Start, len(batch)), make(map[runs.ID]job, len(batch))
	for i, j := range batch {
		id := runs.NewID(j.claim.Slot, j.claim.EndpointID, j.claim.Attempt, j.claim.InfraAttempt)
		list[i] = dispatch.Start{
			Claim:     j.claim,
			TenantID:  j.target.TenantID,
			RunID:     id,
			Execution: j.target.Spec.MaxExecutionTime,
		}
		asked[id] = j
	}
	started, err := l.executions.Start(ctx, dispatch.Starting{
		Worker:  l.worker,
		List:    list,
		LockTTL: l.lockTTL,
	})
	if err != nil {
		return nil, err
	}
	batch = batch[:0]
	for _, s := range started {
		j := asked[s.RunID]
		j.run = s
		batch = append(batch, j)
	}
	return batch, nil
}

func (l fenced) record(ctx context.Context, batch []outcome) error {
	list, bases := make([]runs.Run, len(batch)), make([]dispatch.Basis, len(batch))
	var now time.Time
	for i, o := range batch {
		bases[i] = o.run.Basis
		if o.finished.After(now) {
			now = o.finished
		}
		list[i] = runs.Run{
			ID:           o.run.RunID,
			EndpointID:   o.claim.EndpointID,
			TenantID:     o.target.TenantID,
			ScheduledFor: o.claim.Slot,
			Attempt:      o.claim.Attempt,
			Source:       o.claim.Source,
			ClaimToken:   o.claim.Token,
			WorkerID:     l.worker,
			StartedAt:    o.started,
			FinishedAt:   o.finished,
			Outcome: runs.Outcome{
				Status:        runs.Succeeded,
				Reason:        runs.HTTPStatus,
				MaybeSent:     true,
				StatusCode:    o.status,
				Body:          o.body,
				ResponseBytes: int64(len(o.body)),
			},
		}
	}
	_, err := l.executions.Finish(ctx, dispatch.Finish{
		Worker:  l.worker,
		Runs:    list,
		Bases:   bases,
		Now:     now,
		LockTTL: l.lockTTL,
	})
	return err
}
