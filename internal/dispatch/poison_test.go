package dispatch_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/dispatch/request"
	"rubato/internal/endpoints"
	"rubato/internal/loop"
	"rubato/internal/waittest"
)

// panicsOf returns how often a loop of a worker panicked.
func (p *process) panicsOf(t *testing.T, name loop.Name) float64 {
	t.Helper()
	families, err := p.registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "rubato_loop_panics_total" && m.GetLabel()[0].GetValue() == string(name) {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no series of loop %s", name)
	return 0
}

// poisonedStore panics in a step when trip says so.
type poisonedStore struct {
	*faultyExecutions
	claims.Store
	at   string
	trip func()
}

func (s *poisonedStore) hit(step string) {
	if step == s.at {
		s.trip()
	}
}

func (s *poisonedStore) ClaimDue(ctx context.Context, r claims.Request) ([]claims.Claim, time.Time, error) {
	s.hit("ClaimDue")
	return s.Store.ClaimDue(ctx, r)
}

func (s *poisonedStore) ExtendLocks(ctx context.Context, w [16]byte, held []claims.FencedRun, ttl time.Duration) (kept, over [][16]byte, err error) {
	s.hit("ExtendLocks")
	return s.Store.ExtendLocks(ctx, w, held, ttl)
}

func (s *poisonedStore) Beat(ctx context.Context, p dispatch.Presence) (drain bool, err error) {
	s.hit("Beat")
	return s.faultyExecutions.Beat(ctx, p)
}

func (s *poisonedStore) ProbeSpace(ctx context.Context) error {
	s.hit("ProbeSpace")
	return s.faultyExecutions.ProbeSpace(ctx)
}

func (s *poisonedStore) Cancels(ctx context.Context, worker [16]byte) ([]dispatch.Cancel, error) {
	s.hit("Cancels")
	return s.faultyExecutions.Cancels(ctx, worker)
}

func (s *poisonedStore) Start(ctx context.Context, r dispatch.Starting) ([]dispatch.Started, error) {
	s.hit("Start")
	return s.faultyExecutions.Start(ctx, r)
}

func (s *poisonedStore) Finish(ctx context.Context, f dispatch.Finish) (dispatch.Finished, error) {
	s.hit("Finish")
	return s.faultyExecutions.Finish(ctx, f)
}

// TestEveryLoopGoesOnAfterAPanic panics once in each loop, in the middle of its work.
func TestEveryLoopGoesOnAfterAPanic(t *testing.T) {
	t.Parallel()
	for step, name := range map[string]loop.Name{
		"ClaimDue": loop.Claim, "Start": loop.Start, "Finish": loop.Finish, "Beat": loop.Presence, "ProbeSpace": loop.Space,
		"Cancels": loop.Cancel, "ExtendLocks": loop.Heartbeat,
	} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.register(t, answering(t), func(s *endpoints.Spec) { s.BaselineInterval = time.Second })
			slow := startGated(t)
			b.register(t, slow.Target, func(s *endpoints.Spec) { s.Timeout, s.MaxExecutionTime = time.Minute, time.Minute })
			var hits atomic.Int32
			p := b.work(t, func(cfg *dispatch.Config) {
				b.with(&faultyExecutions{})(cfg)
				poisoned := &poisonedStore{
					faultyExecutions: cfg.Executions.(*faultyExecutions), //nolint:forcetypeassert // It is one line above.
					Store:            cfg.Claims, at: step,
				}
				poisoned.trip = func() {
					if hits.Add(1) == 2 { // The first Beat registers the worker.
						panic("a poisoned row")
					}
				}
				cfg.Executions, cfg.Claims, cfg.Rules.LockTTL = poisoned, poisoned, 6*time.Second
			})
			waittest.Receive(t, slow.arrived)
			waittest.Until(t, func() bool { return hits.Load() >= 3 }, "the loop goes on")
			require.InDelta(t, 1, p.panicsOf(t, name), 0)
			before := query[int](t, b, "SELECT count(*) FROM runs WHERE status = 'succeeded'")
			waittest.Until(t, func() bool {
				return query[int](t, b, "SELECT count(*) FROM runs WHERE status = 'succeeded'") > before+1
			}, "and so do all others")
			slow.letGo <- struct{}{}
			p.stop(t)
			require.Zero(t, query[int](t, b, "SELECT count(*) FROM live_runs"))
		})
	}
}

// TestAPoisonedClaimHurtsNoOther panics whenever the target of one endpoint is read.
func TestAPoisonedClaimHurtsNoOther(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := answering(t)
	sick := b.register(t, target, nil)
	for range 5 {
		b.register(t, target, nil)
	}
	p := b.work(t, b.with(&faultyExecutions{reads: func(list []claims.Claim) {
		for _, c := range list {
			if c.EndpointID == sick.ID {
				panic("a poisoned row")
			}
		}
	}}))
	b.await(t, 5, "SELECT count(*) FROM runs WHERE status = 'succeeded'")
	b.await(t, 1, "SELECT count(*) FROM schedules WHERE endpoint_id = $1 AND claimed_by IS NULL AND due_at > now() + interval '15 s'", [16]byte(sick.ID))
	require.InDelta(t, 2, p.panicsOf(t, loop.Claim), 0, "with the others, alone, and not again for a while")
	p.stop(t)
}

// TestAPoisonedStartHurtsNoOther panics whenever a start of one endpoint is committed, or before
// that when it is made.
func TestAPoisonedStartHurtsNoOther(t *testing.T) {
	t.Parallel()
	t.Run("Commit", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		target := answering(t)
		sick := b.register(t, target, nil)
		for range 5 {
			b.register(t, target, nil)
		}
		p := b.work(t, b.with(&faultyExecutions{starts: func(s dispatch.Starting) {
			for _, start := range s.List {
				if start.Claim.EndpointID == sick.ID {
					panic("a poisoned row")
				}
			}
		}}))
		b.await(t, 5, "SELECT count(*) FROM runs WHERE status = 'succeeded'")
		b.await(t, 1, "SELECT count(*) FROM schedules WHERE endpoint_id = $1 AND claimed_by IS NULL AND due_at > now() + interval '15 s'", [16]byte(sick.ID))
		p.stop(t)
	})
	t.Run("Request", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		target := answering(t)
		sick := b.register(t, target, nil)
		for range 5 {
			b.register(t, target, nil)
		}
		p := b.work(t, b.with(&faultyExecutions{targets: func(found map[[16]byte]*request.Target) {
			if whole, here := found[sick.ID]; here {
				found[sick.ID] = &request.Target{TenantID: whole.TenantID}
			}
		}}))
		b.awaitTimely(t, 6)
		p.stop(t)
		require.Equal(t, 5, query[int](t, b, "SELECT count(*) FROM runs WHERE status = 'succeeded'"))
		require.Equal(t, "lost internal_error nothing was sent: a fault inside Rubato ended the run",
			query[string](t, b, "SELECT status || ' ' || reason_code || ' ' || error FROM runs WHERE endpoint_id = $1", [16]byte(sick.ID)))
	})
}

// TestAStartThatPanicsAfterItsCommitIsEnded has the runs of a batch live in the database when its
// start panics.
func TestAStartThatPanicsAfterItsCommitIsEnded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := answering(t)
	b.register(t, target, nil)
	var tries atomic.Int32
	p := b.work(t, b.with(&faultyExecutions{start: func(next func() ([]dispatch.Started, error)) ([]dispatch.Started, error) {
		started, err := next()
		if tries.Add(1) == 1 {
			panic("a poisoned row")
		}
		return started, err
	}}))
	b.await(t, 1, "SELECT count(*) FROM runs WHERE reason_code = 'internal_error' AND error LIKE 'nothing was sent: %'")
	p.stop(t)
	require.Zero(t, query[int](t, b, "SELECT count(*) FROM live_runs"))
}
