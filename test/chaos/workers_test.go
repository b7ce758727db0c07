package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"rubato/client"
)

// longRun is the limit of the executions of the usual load that outlast their lock.
const longRun = 9 * time.Second

// usual registers the usual load: most endpoints answer fast, some slowly, a few run longer than
// their lock, and the runs of some overlap.
func (s *stack) usual(n int) {
	s.t.Helper()
	s.register(load{n: n * 8 / 10, path: "20", every: time.Second, limit: 2 * time.Second})
	s.register(load{n: n * 1 / 10, path: "700", every: time.Second, limit: 3 * time.Second})
	s.register(load{n: n * 1 / 10, path: "7000", every: 2 * time.Second, limit: longRun, method: client.MethodPOST})
	s.register(load{n: n * 1 / 20, path: "3000", every: time.Second, limit: longRun, overlaps: true})
}

// Workers that are killed at random leave nothing unsettled, and no run of theirs is sent twice at
// the same time.
func TestKilledWorkers(t *testing.T) { //nolint:paralleltest // The long form takes all that a small machine can bear.
	if !long() {
		t.Parallel()
	}
	s := newStack(t, nil)
	s.startWorkers(size().workers)
	s.usual(size().endpoints)
	pass(size().settled)

	var kills []time.Time
	hit := 0
	for end := time.Now().Add(size().killing); time.Now().Before(end); {
		n := rand.IntN(len(s.workers))
		victim := s.workers[n]
		hit += s.count("SELECT count(*) FROM live_runs WHERE worker_id = $1", victim.id)
		victim.signal(t, syscall.SIGKILL)
		require.True(t, victim.killed(t))
		kills = append(kills, time.Now())
		s.workers = slices.Delete(s.workers, n, n+1)
		s.startWorker(nil)
		pass(2 * time.Second)
	}
	require.Positive(t, hit, "no worker was killed with a run in hand")

	r := s.conclude(verdict{
		name: "kill -9 at random", fault: "a random worker every 2 s", fired: fmt.Sprintf("%d kills, %d runs in hand", len(kills), hit), ended: time.Now(),
	})
	t.Logf("the latest starts:\n%s", s.latest(10, kills))
	require.Positive(t, r.Counts.Statuses["lost"])
	require.Zero(t, r.Counts.Overlaps)
	// One death delays a waiting claim by 10 s at most. If kills follow each other, the worker that
	// takes a claim over may die before it starts it, and the claim waits for two silences.
	s.requireWithin(10*time.Second, r.Lateness.P99, always, "waiting claims were taken over too late")
	s.requireWithin(20*time.Second, r.Lateness.Max, always, "a waiting claim was taken over too late")
	s.requireWithin(longRun+20*time.Second, r.Counts.Settled.Max, always, "a run in hand was settled too late")
}

// A claim of a killed worker starts 10 s after its due time at the latest: it waits for the
// worker's silence and not for the lock, which lasts longer here. Each death is over before the
// next, so that no claim meets two.
func TestClaimsOfKilledWorkersAreTakenOver(t *testing.T) {
	t.Parallel()
	const limit, apart = 15 * time.Second, 12 * time.Second
	s := newStack(t, lasting(time.Minute))
	s.startWorkers(3)
	s.register(load{n: 60, path: "20", every: time.Second, limit: limit})
	pass(size().settled)
	var kills []time.Time
	waiting := 0
	for n := range 1 + int(size().killing/(30*time.Second)) {
		if n > 0 {
			pass(apart)
		}
		victim := s.workers[0]
		eventually(t, "a worker to have claims that wait", func() bool { return s.waiting(victim) > 4 })
		waiting += s.waiting(victim)
		victim.signal(t, syscall.SIGKILL)
		require.True(t, victim.killed(t))
		kills = append(kills, time.Now())
		s.workers = s.workers[1:]
		s.startWorker(nil)
	}

	r := s.conclude(verdict{
		name: "claims of the dead", fault: "kill -9 of a worker with claims that wait, under long locks",
		fired: fmt.Sprintf("%d kills, %d claims that waited", len(kills), waiting), ended: kills[len(kills)-1],
	})
	t.Logf("the latest starts:\n%s", s.latest(5, kills))
	require.Zero(t, r.Counts.Overlaps)
	require.Greater(t, r.Lateness.Max, int64(2000), "nothing waited for a dead worker, so nothing can tell")
	s.requireWithin(10*time.Second, r.Lateness.Max, always, "a waiting claim was taken over too late")
}

// waiting returns the number of claims that a worker holds and has not started.
func (s *stack) waiting(w *worker) int {
	s.t.Helper()
	return s.count(`SELECT count(*) FROM schedules s
		WHERE claimed_by = $1 AND NOT EXISTS (SELECT 1 FROM live_runs l WHERE l.endpoint_id = s.endpoint_id)`, w.id)
}

// latest describes the latest starts: the time until the last claim, the time from there to the
// start, and the number of workers that died meanwhile.
func (s *stack) latest(n int, kills []time.Time) string {
	s.t.Helper()
	rows, err := s.pool.Query(s.t.Context(), `
		SELECT scheduled_for, claimed_at, started_at FROM runs WHERE attempt = 1 AND status <> 'skipped'
		ORDER BY started_at - scheduled_for DESC LIMIT $1`, n)
	require.NoError(s.t, err)
	var text strings.Builder
	var due, claimed, started time.Time
	_, err = pgx.ForEachRow(rows, []any{&due, &claimed, &started}, func() error {
		deaths := 0
		for _, at := range kills {
			if at.After(due.Add(-horizon)) && at.Before(started) {
				deaths++
			}
		}
		_, err := fmt.Fprintf(&text, "due %s, claimed %s later, started %s after that; %d deaths from the horizon to the start\n",
			due.Format("15:04:05.000"), claimed.Sub(due).Round(time.Millisecond), started.Sub(claimed).Round(time.Millisecond), deaths)
		return err
	})
	require.NoError(s.t, err)
	return text.String()
}

// A worker that freezes for twice its lock changes nothing when it wakes. A request that was open
// meanwhile may overlap with the next one, which has a higher fence.
func TestFrozenWorker(t *testing.T) {
	t.Parallel()
	s := newStack(t, nil)
	s.startWorkers(2)
	s.register(load{n: 20, path: "20", every: time.Second, limit: 2 * time.Second})
	s.register(load{n: 8, path: "40000", every: time.Second, limit: 45 * time.Second, noSpread: true})
	pass(size().settled)
	victim := s.busiest(2)

	var before string
	history := func() (sum string) {
		require.NoError(t, s.pool.QueryRow(t.Context(), `
			SELECT count(*) || ' ' || md5(string_agg(r::text, ',' ORDER BY r.id))
			FROM runs r WHERE r.worker_id = $1 AND r.status = 'lost'`, victim.id).Scan(&sum))
		return sum
	}
	eventually(t, "the requests to be open", func() bool { return s.target.open() >= 8 })
	frozen, overtaken := time.Now(), time.Time{}
	s.freeze(victim, 2*lockTTL, func() {
		eventually(t, "the frozen worker's runs to be settled", func() bool {
			return s.count("SELECT count(*) FROM live_runs WHERE worker_id = $1", victim.id) == 0
		})
		eventually(t, "the next runs to start beside", func() bool { return s.target.open() > 8 })
		before, overtaken = history(), time.Now()
	})
	woken := time.Now()
	eventually(t, "the woken worker to let go", func() bool {
		return victim.metric(t, "rubato_claims_lock_lost_total{cause=\"expired\"}")+victim.metric(t, "rubato_claims_lock_lost_total{cause=\"revoked\"}") > 0
	})

	r := s.conclude(verdict{
		name: "frozen worker", fault: "SIGSTOP for twice the lock, then SIGCONT", fired: "stood still for " + (2 * lockTTL).String(), ended: woken,
	})
	require.Equal(t, before, history(), "the woken worker changed what had been settled")
	require.Positive(t, r.Counts.Excused, "the fault was to make an overlap that only a fence can refuse")
	require.Equal(t, r.Counts.Overlaps, r.Counts.Excused)
	require.Zero(t, s.took(victim, frozen, overtaken), "a target that looks at the fence accepted an old request")
}

// The first SIGTERM releases unstarted claims and waits for open requests; the second ends the
// worker at once. Its live runs are settled like those of any dead worker, and neither delays its
// unstarted claims.
func TestSecondSignalStopsNow(t *testing.T) {
	t.Parallel()
	const grace = 45 * time.Second
	s := newStack(t, nil)
	hurried := s.startWorker(map[string]string{"RUBATO_SHUTDOWN_GRACE": grace.String()})
	s.register(load{n: 8, path: "40000", every: time.Second, limit: grace, noSpread: true})
	eventually(t, "requests to be open", func() bool { return s.target.open() >= 8 })
	s.startWorker(nil)
	s.register(load{n: 40, path: "20", every: time.Second, limit: 2 * time.Second})
	pass(size().settled)

	hurried.signal(t, syscall.SIGTERM)
	hurried.logged(t, "draining")
	eventually(t, "the draining worker to give back what it has not started", func() bool {
		return s.count("SELECT count(*) FROM schedules WHERE claimed_by = $1", hurried.id) == 8 && s.openOf(hurried) == 8
	})
	eventually(t, "the draining worker to say so", func() bool { return !hurried.ready(t) })
	require.Equal(t, 8, s.openOf(hurried), "the first signal ended a request")
	again := time.Now()
	hurried.signal(t, syscall.SIGTERM)
	hurried.gone(t)
	require.Less(t, time.Since(again), grace/3, "the second signal did not stop the worker")
	require.False(t, hurried.cmd.ProcessState.Success())

	r := s.conclude(verdict{
		name: "second SIGTERM", fault: "while requests are open", fired: "ended at once, with 8 requests open", ended: again,
	})
	require.Zero(t, r.Counts.Overlaps)
	require.GreaterOrEqual(t, r.Counts.Statuses["lost"], 8)
	s.requireWithin(size().delay, r.Lateness.Max, always, "a due time was delayed")
	s.requireWithin(grace+20*time.Second, r.Counts.Settled.Max, always, "a run in hand was settled too late")
}

// A rolling restart of all workers loses nothing and delays nothing by more than size().delay.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	s := newStack(t, nil)
	s.startWorkers(3)
	s.register(load{n: 40, path: "20", every: time.Second, limit: 2 * time.Second})
	s.register(load{n: 6, path: "1500", every: time.Second, limit: 4 * time.Second})
	pass(size().settled)
	for _, old := range slices.Clone(s.workers) {
		s.startWorker(nil)
		old.signal(t, syscall.SIGTERM)
		old.gone(t)
		require.True(t, old.cmd.ProcessState.Success(), old.tail(10))
	}

	r := s.conclude(verdict{name: "rolling restart", fault: "SIGTERM of each worker in turn", fired: "3 workers drained", ended: time.Now()})
	require.Zero(t, r.Counts.Statuses["lost"])
	s.requireWithin(size().delay, r.Lateness.Max, always, "a due time was delayed")
}
