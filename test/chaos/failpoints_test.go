package chaos

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/audit"
	"rubato/internal/failpoint"
)

// armed starts a worker for each failpoint, which does something at the second hit, beside one that goes on.
func (s *stack) armed(action string) []*worker {
	s.t.Helper()
	var list []*worker
	for _, p := range failpoint.Points() {
		list = append(list, s.startWorker(map[string]string{"FAILPOINTS": fmt.Sprintf("%s=%s@2", p, action)}))
	}
	s.startWorker(nil)
	return list
}

// A worker that is killed at any moment of a run's life leaves a run that is settled once, and no due time without a record.
func TestKilledAtEveryPoint(t *testing.T) {
	t.Parallel()
	s := newStack(t, nil)
	victims := s.armed("kill")
	s.register(load{n: 60, path: "20", every: time.Second, limit: 2 * time.Second})
	for i, w := range victims {
		require.True(t, w.killed(t), "%s", failpoint.Points()[i])
		require.True(t, w.failpointFired())
	}

	r := s.conclude(verdict{
		name: "kill -9 at each failpoint", fault: "kill at the second hit", fired: fmt.Sprintf("%d of %d points", len(victims), len(victims)), ended: time.Now(),
	})
	require.Zero(t, r.Counts.Overlaps)
}

// A worker that stands still at any moment of a run's life for twice its lock sends and writes nothing old when it wakes.
func TestFrozenAtEveryPoint(t *testing.T) {
	t.Parallel()
	s := newStack(t, nil)
	victims := s.armed("stop")
	s.register(load{n: 20, path: "20", every: time.Second, limit: 2 * time.Second})
	s.register(load{n: 40, path: "20", every: time.Second, limit: 45 * time.Second}) // Their locks live on heartbeats.
	began := time.Now()
	for i, w := range victims {
		eventually(t, "the worker to stand still at "+string(failpoint.Points()[i]), func() bool { return w.stopped(t) })
		require.True(t, w.failpointFired())
	}
	pass(2 * lockTTL)
	for _, w := range victims {
		require.True(t, w.stopped(t))
		w.signal(t, contSignal)
		s.freezes = append(s.freezes, audit.Freeze{WorkerID: w.id, From: began, To: time.Now().Add(time.Second)})
	}

	s.conclude(verdict{
		name: "frozen at each failpoint", fault: "SIGSTOP at the second hit, for twice the lock", fired: fmt.Sprintf("%d of %d points", len(victims), len(victims)),
		ended: time.Now(),
	})
}
