package chaos

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"rubato/internal/audit"
	"rubato/internal/failpoint"
)

// sent stands for the moment after the target has the request and before it answers. No failpoint
// can name it, because the worker only waits then.
const sent failpoint.Point = "sent"

// victim is a worker that meets a fault at one moment of a run's life.
type victim struct {
	*worker
	moment failpoint.Point
}

// victims starts one worker for each moment, and one without a fault. Each victim has a failpoint
// that acts at its second hit. The exception is the victim of the moment sent, because its fault is
// a signal.
func (s *stack) victims(action string) []victim {
	s.t.Helper()
	list := []victim{{s.startWorker(nil), sent}}
	for _, p := range failpoint.Points() {
		list = append(list, victim{s.startWorker(map[string]string{"FAILPOINTS": fmt.Sprintf("%s=%s@2", p, action)}), p})
	}
	s.startWorker(nil)
	return list
}

// meet waits until the fault has met a worker. For the moment sent it sends the signal itself,
// while a request is open.
func (s *stack) meet(v victim, fault syscall.Signal, met func(victim) bool) {
	s.t.Helper()
	if v.moment != sent {
		eventually(s.t, fmt.Sprintf("%v to meet a worker at %s", fault, v.moment), func() bool { return met(v) })
		require.True(s.t, v.failpointFired(), "%s", v.moment)
		return
	}
	eventually(s.t, fmt.Sprintf("%v to meet a worker whose request is open", fault), func() bool {
		if s.openOf(v.worker) == 0 {
			return false
		}
		v.signal(s.t, fault)
		eventually(s.t, fmt.Sprintf("%v to meet the worker", fault), func() bool { return met(v) })
		if fault == syscall.SIGKILL || s.openOf(v.worker) > 0 {
			return true
		}
		v.signal(s.t, contSignal) // The answer was faster than the signal. Try again.
		return false
	})
}

// openOf returns how many requests of a worker are open at the target.
func (s *stack) openOf(w *worker) int {
	s.t.Helper()
	var open []uuid.UUID
	for _, r := range s.target.requests() {
		if id, err := uuid.Parse(strings.TrimPrefix(r.RunID, "run_")); err == nil && r.Ended.IsZero() {
			open = append(open, id)
		}
	}
	return s.count("SELECT count(*) FROM live_runs WHERE worker_id = $1 AND run_id = ANY ($2)", w.id, open)
}

// A worker that is killed at any moment of a run's life leaves a run that is settled once, and no
// due time without a record.
func TestKilledAtEveryMoment(t *testing.T) {
	t.Parallel()
	s := newStack(t, nil)
	victims := s.victims("kill")
	s.register(load{n: 60, path: "20", every: time.Second, limit: 2 * time.Second})
	s.register(load{n: 10, path: "900", every: time.Second, limit: 2 * time.Second})
	for _, v := range victims {
		s.meet(v, syscall.SIGKILL, func(v victim) bool { return v.over() && v.killed(t) })
	}

	r := s.conclude(verdict{
		name: "kill -9 at each moment", fault: "of a run's life", fired: fmt.Sprintf("%d of %d moments", len(victims), len(victims)), ended: time.Now(),
	})
	require.Zero(t, r.Counts.Overlaps)
	require.Positive(t, r.Counts.Statuses["lost"])
}

// A worker that freezes for twice its lock at any moment of a run's life changes nothing when it
// wakes: the fence refuses its late starts, heartbeats and finishes.
func TestFrozenAtEveryMoment(t *testing.T) {
	t.Parallel()
	s := newStack(t, nil)
	victims := s.victims("stop")
	s.register(load{n: 30, path: "20", every: time.Second, limit: 2 * time.Second})
	// Heartbeats extend their locks.
	s.register(load{n: 30, path: "20", every: time.Second, limit: 45 * time.Second})
	s.register(load{n: 10, path: "900", every: time.Second, limit: 45 * time.Second})
	began := time.Now()
	for _, v := range victims {
		s.meet(v, stopSignal, func(v victim) bool { return v.stopped(t) })
	}
	pass(2 * lockTTL)
	for _, v := range victims {
		require.True(t, v.stopped(t))
		eventually(t, "the frozen worker's runs to be settled", func() bool {
			return s.count("SELECT count(*) FROM live_runs WHERE worker_id = $1", v.id) == 0
		})
	}
	before := s.history(victims)
	woken := time.Now()
	for _, v := range victims {
		v.signal(t, contSignal)
		s.freezes = append(s.freezes, audit.Freeze{WorkerID: v.id, From: began, To: time.Now().Add(time.Second)})
	}

	r := s.conclude(verdict{
		name: "frozen at each moment", fault: "SIGSTOP for twice the lock, then SIGCONT", fired: fmt.Sprintf("%d of %d moments", len(victims), len(victims)),
		ended: woken,
	})
	after := s.history(victims)
	for run, row := range before {
		require.Equal(t, row, after[run], "run %s was changed by a worker that woke", run)
	}
	require.Positive(t, r.Counts.LateAnswers, "no late finish came, so nothing can tell whether it would change anything")
	require.Positive(t, s.refusedStarts(victims), "no late start came, so nothing can tell whether it would be refused")
}

// A worker that pauses between the commit of a start and the first byte does not send if the start
// is more than a second old, even if its lock still holds. Its endpoint may have been paused
// meanwhile.
func TestPausedBetweenStartAndSend(t *testing.T) {
	t.Parallel()
	s := newStack(t, lasting(30*time.Second))
	s.register(load{n: 20, path: "20", every: time.Second, limit: 20 * time.Second})
	held := s.startWorker(map[string]string{"FAILPOINTS": string(failpoint.BeforeSend) + "=stop@30"})
	eventually(t, "the worker to stand still", func() bool { return held.stopped(t) })
	require.True(t, held.failpointFired())
	rows, err := s.pool.Query(t.Context(), "SELECT run_id::text FROM live_runs WHERE worker_id = $1", held.id)
	require.NoError(t, err)
	open, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	s.pauseAll()
	seen := len(s.target.requests()) // Requests that were on their way have arrived by now.
	pass(2 * time.Second)
	held.signal(t, contSignal)
	woken := time.Now()

	r := s.conclude(verdict{
		name: "paused between start and send", fault: "SIGSTOP for 2 s after a start, a pause meanwhile", ended: woken,
		fired: fmt.Sprintf("%d starts not sent", len(open)),
	})
	require.NotEmpty(t, open)
	require.Zero(t, r.Counts.Overlaps)
	require.GreaterOrEqual(t, s.count("SELECT count(*) FROM runs WHERE status = 'skipped' AND reason_code = 'start_expired'"), 1)
	for _, request := range s.target.requests()[seen:] {
		require.Failf(t, "a request was sent after the pause", "%+v", request)
	}
}

// history returns a checksum of each finished run of some workers, by run ID.
func (s *stack) history(of []victim) map[string]string {
	s.t.Helper()
	var ids [][16]byte
	for _, v := range of {
		ids = append(ids, v.id)
	}
	rows, err := s.pool.Query(s.t.Context(), "SELECT r.id::text, r::text FROM runs r WHERE r.worker_id = ANY ($1)", ids)
	require.NoError(s.t, err)
	sums := map[string]string{}
	var id, row string
	_, err = pgx.ForEachRow(rows, []any{&id, &row}, func() error {
		sum := md5.Sum([]byte(row))
		sums[id] = hex.EncodeToString(sum[:])
		return nil
	})
	require.NoError(s.t, err)
	return sums
}

// refusedStarts returns the number of starts of some workers that the fence refused.
func (s *stack) refusedStarts(of []victim) (n int) {
	s.t.Helper()
	for _, v := range of {
		n += int(v.metric(s.t, "rubato_runs_duplicates_prevented_total"))
	}
	return n
}

// took returns the number of requests of a worker that took effect and were open all the time
// between two instants.
func (s *stack) took(w *worker, from, to time.Time) (n int) {
	s.t.Helper()
	mine := s.history([]victim{{worker: w}})
	for _, r := range s.target.requests() {
		id, err := uuid.Parse(strings.TrimPrefix(r.RunID, "run_"))
		if _, his := mine[id.String()]; err == nil && his && r.Accepted && r.Arrived.Before(from) && r.Ended.After(to) {
			n++
		}
	}
	return n
}
