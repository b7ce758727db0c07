package chaos

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"rubato/client"
	"rubato/internal/devpg"
)

// refusal is a way in which a reachable database refuses work.
type refusal struct {
	fault string
	state string // SQLSTATE of the errors
	// begin starts the refusal and returns the function that ends it.
	begin func(s *stack) (end func())
	// some: part of the work goes on, so that programs stay ready.
	some bool
}

// refusals are the ones that need no right on the machine.
func refusals() map[string]refusal {
	return map[string]refusal{
		"read-only database":    {fault: "default_transaction_read_only is on", state: "25006", begin: (*stack).readOnly},
		"full disk, simulated":  {fault: "every insert and update is answered with 53100", state: "53100", begin: refuseAll("53100")},
		"too many connections":  {fault: "the role may have no connection, and those it has are ended", state: "53300", begin: (*stack).noConnections},
		"deadlocks":             {fault: "a stranger locks schedules against our order", state: "40P01", begin: (*stack).deadlocks, some: true},
		"serialization failure": {fault: "one statement in five is answered with 40001", state: "40001", begin: refuseSome("40001"), some: true},
	}
}

// limitedRole is the role of the programs. Its rights can be limited, whereas a superuser always
// gets a connection.
const limitedRole = "limited"

// A database that refuses work loses nothing of a run: answers are kept and written when it works
// again, no worker is declared dead, no process ends, and readiness reports the refusal.
func TestRefusingDatabase(t *testing.T) {
	t.Parallel()
	for name, r := range refusals() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, newCluster(t), name, r)
		})
	}
}

// refused lets a database refuse for a while. Runs are in flight, and their answers arrive
// meanwhile.
func refused(t *testing.T, cluster *devpg.Cluster, name string, r refusal) {
	t.Helper()
	hold := size().fault
	ttl := 2*hold + room // The fault is shorter than a lock.
	u, err := url.Parse(cluster.URL())
	require.NoError(t, err)
	u.User = url.User(limitedRole)
	limit(t, cluster)
	env := lasting(ttl)
	env["DATABASE_URL"] = u.String()
	s := newStackOn(t, cluster, env)
	s.startWorkers(2)
	s.register(load{n: 30, path: "20", every: time.Second, limit: ttl, noSpread: r.some}) // At once: some faults need large batches.
	const slow = 30
	s.register(load{n: slow, path: fmt.Sprint((hold/2 + time.Second).Milliseconds()), every: time.Second, limit: ttl, noSpread: true})
	s.awaitReady(true)
	eventually(t, "the slow runs to be in flight", func() bool { return s.target.open() >= slow })

	lag := s.lag()
	began := time.Now()
	end := r.begin(s)
	s.awaitRefusal(r.state)
	pass(max(0, hold-time.Since(began)))
	s.requireAlive()
	if !r.some {
		s.awaitReady(false)
		require.Equal(t, http.StatusServiceUnavailable, s.statusOfWrite(), "the API server must say that it cannot")
	}
	end()
	back := time.Now()
	s.awaitReady(true)
	kept := s.answered(began, back)
	require.Positive(t, kept, "no answer came during the fault")

	s.requireHarmless(back, verdict{
		name: name, fault: r.fault, fired: fmt.Sprintf("SQLSTATE %s, %d answers came meanwhile", r.state, kept), ended: back, lag: lag,
	})
}

// limit creates the role of the programs. It owns the objects of the superuser and is not a
// superuser.
func limit(t *testing.T, cluster *devpg.Cluster) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), cluster.URL())
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	_, err = conn.Exec(t.Context(), "CREATE ROLE "+limitedRole+" LOGIN IN ROLE "+conn.Config().User)
	require.NoError(t, err)
}

// admin runs statements on the test's own pool, which no fault affects.
func (s *stack) admin(statements ...string) {
	s.t.Helper()
	for _, sql := range statements {
		_, err := s.pool.Exec(s.t.Context(), sql)
		require.NoError(s.t, err, sql)
	}
}

// awaitRefusal waits until a worker logs the refusal.
func (s *stack) awaitRefusal(state string) {
	s.t.Helper()
	eventually(s.t, "a worker to meet SQLSTATE "+state, func() bool {
		for _, w := range s.workers {
			if strings.Contains(w.tail(1_000_000), "SQLSTATE "+state) {
				return true
			}
		}
		return false
	})
}

// statusOfWrite returns the status of the API server's answer to a registration.
func (s *stack) statusOfWrite() int {
	s.t.Helper()
	res, err := s.api.CreateEndpoint(s.t.Context(), client.EndpointSpec{
		Name: "in vain", URL: s.target.URL + "/20/vain", BaselineIntervalMs: new(time.Hour.Milliseconds()),
	})
	require.NoError(s.t, err)
	defer res.Body.Close()
	return res.StatusCode
}

// answered returns how many requests the target answered between two instants.
func (s *stack) answered(from, to time.Time) (n int) {
	for _, r := range s.target.requests() {
		if r.Accepted && r.Ended.After(from) && r.Ended.Before(to) {
			n++
		}
	}
	return n
}

// unrecorded returns the number of requests that took effect without a run that records the
// success.
func (s *stack) unrecorded() int {
	s.t.Helper()
	var took []string
	for _, r := range s.target.requests() {
		if r.Accepted {
			took = append(took, strings.TrimPrefix(r.RunID, "run_"))
		}
	}
	return len(took) - s.count("SELECT count(*) FROM runs WHERE status = 'succeeded' AND id::text = ANY ($1)", took)
}

// readOnly makes every new transaction read-only, as after a failover to a standby or at the end of
// the transaction IDs.
func (s *stack) readOnly() func() {
	s.t.Helper()
	s.admin("ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
	return func() {
		s.t.Helper()
		s.admin("ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()")
	}
}

// noConnections ends every connection of the programs and refuses new ones.
func (s *stack) noConnections() func() {
	s.t.Helper()
	s.admin("ALTER ROLE "+limitedRole+" CONNECTION LIMIT 0", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '"+limitedRole+"'")
	return func() {
		s.t.Helper()
		s.admin("ALTER ROLE " + limitedRole + " CONNECTION LIMIT -1")
	}
}

// written are the tables that workers write.
func written() []string {
	return []string{"endpoints", "schedules", "decisions", "runs", "run_events", "run_bodies", "workers"}
}

// refuseAll answers every insert and update with an SQLSTATE.
func refuseAll(state string) func(*stack) func() {
	return func(s *stack) func() { return s.refuse(state, "true") }
}

// refuseSome answers one insert or update in five with an SQLSTATE.
func refuseSome(state string) func(*stack) func() {
	return func(s *stack) func() { return s.refuse(state, "random() < 0.2") }
}

func (s *stack) refuse(state, when string) func() {
	s.t.Helper()
	s.admin(fmt.Sprintf(`
		CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF %s THEN
				RAISE EXCEPTION 'refused by the scenario' USING ERRCODE = '%s';
			END IF;
			RETURN NULL;
		END $$`, when, state))
	for _, table := range written() {
		s.admin("CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON " + table + " FOR EACH STATEMENT EXECUTE FUNCTION refuse()")
	}
	return func() {
		s.t.Helper()
		for _, table := range written() {
			s.admin("DROP TRIGGER refuse ON " + table)
		}
	}
}

// deadlocks locks schedules against the order of batches again and again, from a connection of its
// own, until it is ended. That connection waits longer, so Postgres aborts the transactions of the
// programs. Between two rounds it releases its locks for as long as an interval, because rows that
// are always locked are never claimed and no batch would contain them.
func (s *stack) deadlocks() func() {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			err = s.lockUpwards(ctx)
			rest(ctx, time.Second)
			err = cmp.Or(err, ctx.Err())
		}
		ended <- err
	}()
	return func() {
		s.t.Helper()
		cancel()
		require.ErrorIs(s.t, <-ended, context.Canceled)
	}
}

// lockUpwards locks the schedules that batches reach last, waits until a batch waits for them, and
// then locks all the others.
func (s *stack) lockUpwards(ctx context.Context) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		const last = "endpoint_id >= (SELECT percentile_disc(0.8) WITHIN GROUP (ORDER BY endpoint_id) FROM schedules)"
		for _, sql := range []string{"SET LOCAL deadlock_timeout = '30s'", "SELECT FROM schedules WHERE " + last + " FOR UPDATE"} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		for waits := false; !waits; rest(ctx, 25*time.Millisecond) {
			err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_locks WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid)))").Scan(&waits)
			if err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, "SELECT FROM schedules FOR UPDATE")
		return err
	})
}

// rest waits for a time, or until the context ends.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
