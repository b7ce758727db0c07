package dispatch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/dispatch/request"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
)

// emptyStore is a store that has nothing to claim.
type emptyStore struct{ claims.Store }

func (emptyStore) ClaimDue(context.Context, claims.Request) ([]claims.Claim, time.Time, error) {
	return nil, time.Now(), nil
}

// heartbeatOnlyStore is a database that takes signs of life and no records.
type heartbeatOnlyStore struct{ Executions }

func (heartbeatOnlyStore) Beat(context.Context, Presence) (bool, error)        { return false, nil }
func (heartbeatOnlyStore) Fleet(context.Context, [16]byte) (Fleet, error)      { return Fleet{}, nil }
func (heartbeatOnlyStore) ProbeSpace(context.Context) error                    { return nil }
func (heartbeatOnlyStore) Cancels(context.Context, [16]byte) ([]Cancel, error) { return nil, nil }
func (heartbeatOnlyStore) Finish(context.Context, Finish) (Finished, error) {
	return Finished{}, errs.New(errs.Unavailable, "away", "the database is away")
}

// TestADrainIsBoundedByItsGracePeriods has a request that lasts the whole grace period, and a
// database that takes no record. A supervisor kills the worker after the documented time.
func TestADrainIsBoundedByItsGracePeriods(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const grace = 30 * time.Second
		w := lone(t, Config{
			Slots: 4, Rules: claims.Rules{Horizon: 10 * time.Second, LockTTL: time.Minute}, PollInterval: time.Second, Grace: grace,
			Claims: emptyStore{}, Executions: heartbeatOnlyStore{},
		})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		synctest.Wait()
		occupy(w, 1)
		w.pool.run(func() {
			<-ctx.Done()
			time.Sleep(grace)
			w.results <- result{}
		})
		began := time.Now()
		stop()
		require.NoError(t, <-ended)
		require.Equal(t, grace+recordGrace, time.Since(began))
	})
}

// stallingStore is a database that answers until it stands still, and nothing from then on.
type stallingStore struct {
	claims.Store
	Executions

	still chan struct{} // closed when it stands still
}

func (d *stallingStore) answer(ctx context.Context) error {
	select {
	case <-d.still:
		<-ctx.Done()
		return errs.Wrap(ctx.Err(), errs.Unavailable, "the database cannot be reached")
	default:
		return nil
	}
}

func (d *stallingStore) ClaimDue(ctx context.Context, _ claims.Request) ([]claims.Claim, time.Time, error) {
	return nil, time.Now(), d.answer(ctx)
}

func (d *stallingStore) DueTenants(ctx context.Context, _ time.Duration, _ claims.TagSets) ([][16]byte, error) {
	return nil, d.answer(ctx)
}

func (d *stallingStore) Release(ctx context.Context, _ [16]byte, _ []claims.Claim) (int, error) {
	return 0, d.answer(ctx)
}

func (d *stallingStore) Start(ctx context.Context, _ Starting) ([]Started, error) {
	return nil, d.answer(ctx)
}

func (d *stallingStore) LiveStarts(ctx context.Context, _ [16]byte, _ []Start) ([]Started, error) {
	return nil, d.answer(ctx)
}

func (d *stallingStore) Finish(ctx context.Context, _ Finish) (Finished, error) {
	return Finished{}, d.answer(ctx)
}

func (d *stallingStore) Wake(ctx context.Context) error { return d.answer(ctx) }

func (d *stallingStore) Beat(ctx context.Context, _ Presence) (bool, error) {
	return false, d.answer(ctx)
}

func (d *stallingStore) Fleet(ctx context.Context, _ [16]byte) (Fleet, error) {
	return Fleet{}, d.answer(ctx)
}

func (d *stallingStore) ProbeSpace(ctx context.Context) error { return d.answer(ctx) }

func (d *stallingStore) Cancels(ctx context.Context, _ [16]byte) ([]Cancel, error) {
	return nil, d.answer(ctx)
}

// TestADrainOfASilentDatabaseIsBounded stops a worker while a claim, a start, a record and a sign
// of life of it get no answer, and asks for its other last words too. Each may take seconds, and
// all together no more than is stated.
func TestADrainOfASilentDatabaseIsBounded(t *testing.T) {
	t.Parallel()
	for _, grace := range []time.Duration{0, 2 * time.Second, 30 * time.Second} {
		t.Run(grace.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db := &stallingStore{still: make(chan struct{})}
				w := lone(t, Config{
					Slots: 4, Rules: claims.Rules{Horizon: 10 * time.Second, LockTTL: time.Minute}, PollInterval: time.Second, Grace: grace,
					Claims: db, Executions: db,
				})
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- w.Run(ctx) }()
				synctest.Wait()
				close(db.still)
				occupy(w, 1)
				w.pool.run(func() { w.results <- result{} })
				w.queue.Put([]*waiting{newWaiting(claims.Claim{PlannedAt: time.Now()}, &request.Target{Spec: &endpoints.Spec{}}, time.Now())})
				// The second start is under way, and the first one is in doubt.
				time.Sleep(startWait + startRetry + time.Second)
				began := time.Now()
				stop()
				require.Error(t, <-ended, "nobody took its goodbye")
				require.LessOrEqual(t, time.Since(began), grace+recordGrace+finalStateGrace)
			})
		})
	}
}
