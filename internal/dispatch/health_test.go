package dispatch_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/waittest"
)

// lostLockStore is a store in which no lock is ever extended.
type lostLockStore struct{ claims.Store }

func (lostLockStore) ExtendLocks(context.Context, [16]byte, []claims.FencedRun, time.Duration) (kept, over [][16]byte, err error) {
	return nil, nil, errors.New("the statement got lost")
}

// TestAWorkerThatCanStartOrRecordNothingIsNotReady has a disk that is full: what rewrites a row in
// its place goes on, as claims and signs of life do, and what makes a new one is refused.
func TestAWorkerThatCanStartOrRecordNothingIsNotReady(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spoil func(h *faultyExecutions, full *atomic.Bool)
		says  string
	}{
		"Start": {func(h *faultyExecutions, full *atomic.Bool) {
			h.start = func(next func() ([]dispatch.Started, error)) ([]dispatch.Started, error) {
				if full.Load() {
					return nil, errAway
				}
				return next()
			}
		}, "no run could be started for more than 3s"},
		"Record": {func(h *faultyExecutions, full *atomic.Bool) {
			h.finish = func(f dispatch.Finish, next func(dispatch.Finish) (dispatch.Finished, error)) (dispatch.Finished, error) {
				if full.Load() {
					return dispatch.Finished{}, errAway
				}
				return next(f)
			}
		}, "no run could be recorded for more than 3s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.register(t, answering(t), nil)
			var full atomic.Bool
			full.Store(true)
			h := &faultyExecutions{}
			tc.spoil(h, &full)
			p := b.work(t, b.with(h))
			waittest.Until(t, func() bool {
				err := p.Ready(t.Context())
				return err != nil && strings.Contains(err.Error(), tc.says)
			})
			full.Store(false)
			b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'succeeded'")
			waittest.Until(t, func() bool { return p.Ready(t.Context()) == nil })
			p.stop(t)
		})
	}
}

// TestAnIdleWorkerBesideAFullDiskIsNotReady has no endpoint at all. A limit of temporary files
// refuses new space as a full disk does, in the same place of Postgres, while rows are still
// rewritten in place.
func TestAnIdleWorkerBesideAFullDiskIsNotReady(t *testing.T) {
	t.Parallel()
	b := setup(t)
	limit := func(sql string) {
		name := query[string](t, b, "SELECT quote_ident(current_database())")
		b.exec(t, "ALTER DATABASE "+name+sql)
		b.exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "+
			"AND application_name = 'rubato'") // Sessions take the setting from the start.
	}
	p := b.work(t, nil)
	waittest.Until(t, func() bool { return p.Ready(t.Context()) == nil })

	limit(" SET temp_file_limit = 0")
	waittest.Until(t, func() bool {
		err := p.Ready(t.Context())
		return err != nil && strings.HasPrefix(err.Error(), "the database has had no room for new data for more than 3s")
	})
	beats := func() {
		before := query[time.Time](t, b, "SELECT heartbeat_at FROM workers")
		b.await(t, 1, "SELECT count(*) FROM workers WHERE heartbeat_at > $1", before)
	}
	beats()

	limit(" RESET temp_file_limit")
	waittest.Until(t, func() bool { return p.Ready(t.Context()) == nil })
	beats() // Over a new connection, as its last words will be.
	p.stop(t)
}

// TestLateHeartbeatsMakeAWorkerUnready has a worker that claims well and cannot extend the lock of
// its one run.
func TestLateHeartbeatsMakeAWorkerUnready(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := startGated(t)
	b.register(t, target.Target, func(s *endpoints.Spec) { s.Timeout, s.MaxExecutionTime = time.Minute, time.Minute })
	p := b.work(t, func(cfg *dispatch.Config) {
		cfg.Claims, cfg.Rules.LockTTL, cfg.Rules.Horizon = lostLockStore{b.claims}, 6*time.Second, time.Second
	})
	waittest.Receive(t, target.arrived)
	require.NoError(t, p.Ready(t.Context()), "the lock is fresh")

	waittest.Until(t, func() bool {
		err := p.Ready(t.Context())
		return err != nil && strings.Contains(err.Error(), "no heartbeat has extended the locks for 3s")
	})
	waittest.Until(t, func() bool { return p.Ready(t.Context()) == nil }, "the run was canceled, so there is no lock to extend")
	p.stop(t)
}
