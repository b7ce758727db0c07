package dispatch_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
)

// heartless is a store in which no lock is ever extended.
type heartless struct{ claims.Store }

func (heartless) ExtendLocks(context.Context, [16]byte, []claims.Held, time.Duration) (kept, over [][16]byte, err error) {
	return nil, nil, errors.New("the statement got lost")
}

// TestAWorkerWhoseHeartbeatsLagIsNotReady looks at a worker that claims well and cannot extend the lock of its one run.
func TestAWorkerWhoseHeartbeatsLagIsNotReady(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := startGated(t)
	b.register(t, target.Target, func(s *endpoints.Spec) { s.Timeout, s.MaxExecutionTime = time.Minute, time.Minute })
	p := b.work(t, func(cfg *dispatch.Config) {
		cfg.Claims, cfg.Rules.LockTTL, cfg.Rules.Horizon = heartless{b.claims}, 6*time.Second, time.Second
	})
	receive(t, target.arrived)
	require.NoError(t, p.Ready(t.Context()), "the lock is fresh")

	require.Eventually(t, func() bool {
		err := p.Ready(t.Context())
		return err != nil && strings.Contains(err.Error(), "no heartbeat has extended the locks for 3s")
	}, patience, 10*time.Millisecond)
	require.Eventually(t, func() bool { return p.Ready(t.Context()) == nil }, patience, 10*time.Millisecond, "the run was cancelled, so there is no lock to extend")
	p.stop(t)
}
