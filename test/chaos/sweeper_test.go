package chaos

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// leader returns the worker that leads the sweeps, according to its metric. It fails if two report
// that they lead.
func (s *stack) leader(of []*worker) *worker {
	s.t.Helper()
	var leaders []*worker
	for _, w := range of {
		if w.metric(s.t, "rubato_zombie_leader") == 1 {
			leaders = append(leaders, w)
		}
	}
	require.LessOrEqual(s.t, len(leaders), 1, "one worker leads")
	if len(leaders) == 0 {
		return nil
	}
	return leaders[0]
}

// TestAKilledSweeperIsFollowedByAnother kills the leader, and then its successor.
func TestAKilledSweeperIsFollowedByAnother(t *testing.T) {
	t.Parallel()
	s := newStack(t, nil)
	s.startWorkers(3)
	left := slices.Clone(s.workers)
	for range 2 {
		var leader *worker
		eventually(t, "one of the workers to lead", func() bool {
			leader = s.leader(left)
			return leader != nil
		})
		leader.signal(t, syscall.SIGKILL)
		left = slices.DeleteFunc(left, func(w *worker) bool { return w == leader })
	}
	eventually(t, "the last worker to lead", func() bool { return s.leader(left) != nil })
}

// TestAStuckSweepTurnsHealthRed blocks a sweep of the leader, which ignores its context, as a lock
// does that is never released.
func TestAStuckSweepTurnsHealthRed(t *testing.T) {
	t.Parallel()
	s := newStack(t, nil)
	goOn := filepath.Join(t.TempDir(), "go-on")
	sick := s.startWorker(map[string]string{"FAILPOINTS": "sweeping=pause:" + goOn + "@4"})
	eventually(t, "the first worker to lead", func() bool { return s.leader([]*worker{sick}) == sick })
	sound := s.startWorker(nil)
	eventually(t, "a sweep to be held", sick.failpointFired)
	eventually(t, "the worker to say that its sweep is stuck", func() bool {
		status, text := sick.get(t, "/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(text, "a sweeper pass has been running for over 10s")
	})
	eventually(t, "another worker to lead", func() bool { return s.leader(s.workers) == sound })
	require.NoError(t, os.WriteFile(goOn, nil, 0o600))
	eventually(t, "the worker to be ready again", func() bool { return sick.ready(t) })
	s.requireAlive()
}
