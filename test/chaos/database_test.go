package chaos

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"rubato/client"
)

// outage stops Postgres by a signal for a time and starts it again.
func (s *stack) outage(how syscall.Signal, d time.Duration) {
	s.t.Helper()
	pid, err := s.cluster.Pid()
	require.NoError(s.t, err)
	require.NoError(s.t, syscall.Kill(pid, how))
	eventually(s.t, "Postgres to be away", func() bool { return !s.connects() })
	pass(d)
	require.NoError(s.t, s.cluster.Restart(s.t.Context()))
	s.pool.Reset()
}

// connects reports whether Postgres accepts a connection.
func (s *stack) connects() bool {
	conn, err := pgx.Connect(s.t.Context(), s.cluster.URL())
	if err == nil {
		_ = conn.Close(s.t.Context())
	}
	return err == nil
}

// lasting returns settings with locks of ttl and every duration that depends on them.
func lasting(ttl time.Duration) map[string]string {
	return map[string]string{
		"RUBATO_LOCK_TTL": ttl.String(), "RUBATO_STALE_AFTER": (ttl + time.Second).String(), "RUBATO_SETTLE": (ttl + 2*time.Second).String(),
	}
}

// slowRuns puts n runs in flight that the target answers after an outage of a length. Each run has
// the limit.
func (s *stack) slowRuns(n int, outage, limit time.Duration) {
	s.t.Helper()
	s.register(load{n: n, path: fmt.Sprint((outage + 3*time.Second).Milliseconds()), every: time.Second, limit: limit, noSpread: true})
	eventually(s.t, "the slow runs to be in flight", func() bool { return s.target.open() >= n })
}

// room is how much longer than an outage locks last. On a busy machine Postgres and the workers
// take many seconds to come back, and locks that end meanwhile lose the runs in flight.
const room = 45 * time.Second

// A database outage shorter than a lock loses nothing: runs in flight are recorded afterwards, no
// worker is declared dead for its silence, and the schedule catches up soon.
func TestDatabaseOutage(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]syscall.Signal{"fast": syscall.SIGINT, "immediate": syscall.SIGQUIT} {
		for _, outage := range size().outages {
			t.Run(fmt.Sprintf("%s %s", name, outage), func(t *testing.T) {
				t.Parallel()
				ttl := 3*outage + room
				s := newStack(t, lasting(ttl))
				s.startWorkers(2)
				s.register(load{n: 30, path: "20", every: time.Second, limit: ttl})
				s.slowRuns(size().slow, outage, ttl)
				lag := s.lag()
				s.outage(how, outage)
				back := time.Now()
				s.requireAlive()
				s.requireHarmless(back, verdict{
					name: fmt.Sprintf("Postgres away for %s, %s", outage, name), fault: "stopped by a signal, then started again",
					fired: fmt.Sprintf("connections refused, %d slow runs in flight", size().slow), ended: back, lag: lag,
				})
			})
		}
	}
}

// requireHarmless concludes a fault that was shorter than the locks. It cost nothing but time.
func (s *stack) requireHarmless(back time.Time, v verdict) {
	s.t.Helper()
	s.awaitReady(true)
	r := s.conclude(v)
	require.Zero(s.t, s.lostAfterSending(), "the outage was shorter than the locks")
	require.Zero(s.t, s.unrecorded(), "an answer was thrown away")
	require.Zero(s.t, r.Counts.Overlaps)
	require.Zero(s.t, r.Counts.LateAnswers)
	s.requireWithin(10*time.Second, s.recovered(v).Milliseconds(), back, "an endpoint came back on schedule too late")
}

// A failover of the database loses nothing: every connection breaks at once, and connections are
// refused for a while.
func TestFailover(t *testing.T) {
	t.Parallel()
	refused := size().failover
	ttl := 2*refused + room
	cluster := newCluster(t)
	l := newLink(t, socketOf(t, cluster))
	env := lasting(ttl)
	env["DATABASE_URL"] = through(t, cluster, l)
	s := newStackOn(t, cluster, env)
	s.startWorkers(2)
	s.register(load{n: 30, path: "20", every: time.Second, limit: ttl})
	s.slowRuns(size().slow/2, refused, ttl)
	lag := s.lag()
	broken, _ := l.felt()
	l.refuse()
	s.outage(syscall.SIGQUIT, refused)
	_, err := net.Dial("tcp", l.address())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	s.requireAlive()
	s.awaitReady(false)
	l.restore(t)
	back := time.Now()
	broke, _ := l.felt()
	require.Greater(t, broke, broken, "no connection was ended")
	s.requireHarmless(back, verdict{
		name: "failover", fault: "connections refused for " + refused.String(), ended: back, lag: lag,
		fired: fmt.Sprintf("%d connections ended, %d slow runs in flight", broke-broken, size().slow/2),
	})
}

// An outage longer than the locks loses the runs in flight and no more. Each worker ends its
// requests before its locks end, so nothing overlaps with them, and the schedule catches up soon.
func TestOutageOutlastsLocks(t *testing.T) {
	t.Parallel()
	outage := max(2*lockTTL, size().failover)
	s := newStack(t, nil)
	s.startWorkers(2)
	s.register(load{n: 30, path: "20", every: time.Second, limit: 2 * time.Second})
	const limit = 4 * lockTTL // Heartbeats would carry these runs to their end; the outage comes before that.
	s.register(load{n: size().slow, path: "hang", every: time.Second, limit: limit, noSpread: true})
	eventually(t, "the slow runs to be in flight", func() bool { return s.target.open() >= size().slow })
	lag := s.lag()
	s.outage(syscall.SIGQUIT, outage)
	back := time.Now()
	s.requireAlive()
	v := verdict{
		name: "an outage longer than the locks", fault: fmt.Sprintf("Postgres away for %s, locks of %s", outage, lockTTL), ended: back, lag: lag,
		fired: fmt.Sprintf("connections refused, %d slow runs in flight", size().slow),
	}
	r := s.conclude(v)
	require.Zero(t, r.Counts.Overlaps)
	require.GreaterOrEqual(t, r.Counts.Statuses["lost"], size().slow*9/10, "the locks outlasted the outage, so nothing can tell")
	s.requireWithin(max(limit, outage)+20*time.Second, r.Counts.Settled.Max, back, "a run in hand was settled too late")
	s.requireWithin(10*time.Second, s.recovered(v).Milliseconds(), back, "an endpoint came back on schedule too late")
}

// lostAfterSending returns the number of lost runs with a request that reached the target. A start
// may also be lost because its commit was cut off; such a start is never sent.
func (s *stack) lostAfterSending() int {
	s.t.Helper()
	var seen []string
	for _, r := range s.target.requests() {
		seen = append(seen, strings.TrimPrefix(r.RunID, "run_"))
	}
	return s.count("SELECT count(*) FROM runs WHERE status = 'lost' AND id::text = ANY ($1)", seen)
}

// A partitioned worker ends its requests before another worker may run their endpoints. Its link is
// cut, stalled, or passes no answers, so it cannot know the fate of its statements.
func TestPartitionedWorker(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*link){"cut": (*link).cut, "stalled": (*link).stall, "without answers": (*link).deafen} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStack(t, nil)
			l := newLink(t, socketOf(t, s.cluster))
			victim := s.startWorker(map[string]string{"DATABASE_URL": s.through(l), "RUBATO_DATABASE_DIRECT_URL": s.cluster.URL()})
			s.register(load{n: 8, path: "40000", every: time.Second, limit: 45 * time.Second, noSpread: true})
			eventually(t, "the long runs to be in flight", func() bool { return s.target.open() >= 8 })
			s.startWorker(nil) // Started late, so that all of them are the partitioned worker's.
			s.register(load{n: 20, path: "20", every: time.Second, limit: 2 * time.Second})
			eventually(t, "the short runs to begin", func() bool { return s.count("SELECT count(*) FROM runs") > 0 })
			fault(l)
			pass(2 * lockTTL)
			eventually(t, "the partitioned worker's runs to be settled", func() bool {
				return s.count("SELECT count(*) FROM live_runs WHERE worker_id = $1", victim.id) == 0
			})
			l.restore(t)
			back := time.Now()
			broke, held := l.felt()
			require.Positive(t, broke+held, "the link was not in use")

			r := s.conclude(verdict{
				name: "link " + name, fault: "the link of one worker to Postgres, for twice the lock",
				fired: fmt.Sprintf("%d connections cut, %d chunks held", broke, held), ended: back,
			})
			require.Zero(t, r.Counts.Overlaps)
			require.Positive(t, r.Counts.Statuses["lost"])
		})
	}
}

// A commit has happened even if its answer is lost, although its program cannot know. A start with
// an unknown commit is never sent, a finish is retried without further effect, and no answer of a
// target is dropped.
func TestUnknownCommits(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	l := newLink(t, socketOf(t, cluster))
	env := lasting(20 * time.Second)
	env["DATABASE_URL"] = through(t, cluster, l)
	s := newStackOn(t, cluster, env)
	s.startWorkers(2)
	const limit = 5 * time.Second
	s.register(load{n: 40, path: "20", every: time.Second, limit: limit})
	s.register(load{n: 20, path: "700", every: time.Second, limit: limit, method: client.MethodPOST})
	s.awaitReady(true)
	l.loseCommits(true)
	enough := 2 * int(size().fault/time.Second)
	eventually(t, "the answers to commits to be lost", func() bool { return l.lostCommits() > enough })
	l.loseCommits(false)
	back := time.Now()
	s.requireAlive()

	r := s.conclude(verdict{
		name: "commits of unknown end", fault: "the answer to every tenth commit is lost, with its connection",
		fired: fmt.Sprintf("%d answers lost", l.lostCommits()), ended: back,
	})
	require.Zero(t, s.lostAfterSending(), "a run that was sent was given up")
	require.Zero(t, s.unrecorded(), "an answer was thrown away")
	require.Zero(t, r.Counts.Overlaps)
	s.requireWithin(limit+20*time.Second, r.Counts.Settled.Max, always, "a start that was never sent was settled too late")
}

// Notifications only shorten waits: without them the next poll finds due endpoints.
func TestLostNotifications(t *testing.T) {
	t.Parallel()
	s := newStack(t, nil)
	l := newLink(t, socketOf(t, s.cluster))
	for range 2 {
		s.startWorker(map[string]string{"RUBATO_DATABASE_DIRECT_URL": s.through(l)})
	}
	eventually(t, "both workers to listen", func() bool {
		return s.count("SELECT count(*) FROM pg_stat_activity WHERE state = 'idle' AND query LIKE 'LISTEN %'") >= 2
	})
	l.stall()
	s.register(load{n: 30, path: "20", every: time.Second, limit: 2 * time.Second})
	eventually(t, "a message to be lost", func() bool { _, held := l.felt(); return held > 0 })
	eventually(t, "each endpoint to have run twice", func() bool {
		return s.count("SELECT count(*) FROM (SELECT FROM runs GROUP BY endpoint_id HAVING count(*) > 1) AS often") == 30
	})
	_, held := l.felt()

	r := s.conclude(verdict{
		name: "NOTIFY lost", fault: "nothing comes through to the listeners", fired: fmt.Sprintf("%d messages held", held), ended: time.Now(),
	})
	s.requireWithin(3*time.Second, r.Lateness.Max, always, "a poll finds what is due within its interval")
	l.restore(t)
}
