package dispatch_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/dispatch"
)

// late has a database that commits the first start after the worker's timeout.
type late struct {
	dispatch.Executions

	tries atomic.Int32
	until time.Time // of the first start
}

func (l *late) Start(ctx context.Context, s dispatch.Starting) ([]dispatch.Started, error) {
	if l.tries.Add(1) == 1 {
		l.until = s.Until
		s.Until = time.Unix(0, 0)
	}
	return l.Executions.Start(ctx, s)
}

// TestAStartThatIsCarriedOutTooLateIsMadeAgain: no request would leave so late, so its due time
// must not be spent on it.
func TestAStartThatIsCarriedOutTooLateIsMadeAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target, l := answering(t), &late{}
	b.register(t, target, nil)
	p := b.work(t, func(c *dispatch.Config) {
		l.Executions = c.Executions
		c.Executions = l
	})
	b.awaitTimely(t, 1)
	p.stop(t)
	require.Equal(t, 1, query[int](t, b, "SELECT count(*) FROM runs WHERE status = 'succeeded'"))
	require.Len(t, target.Requests(), 1)
	require.EqualValues(t, 2, l.tries.Load())
	started := query[time.Time](t, b, "SELECT started_at FROM runs")
	require.WithinRange(t, l.until, started.Add(-10*time.Second), started.Add(2*time.Second), "in database time")
}
