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

// refusal is a way in which a database that is there does not do what it is asked.
type refusal struct {
	fault string
	state string // the SQLSTATE that it shows
	// begin starts the refusal and returns what ends it.
	begin func(s *stack) (end func())
	// some says that part of the work goes on, so that programs stay ready.
	some bool
}

// refusals are those that need nothing of the machine.
func refusals() map[string]refusal {
	return map[string]refusal{
		"read-only database":    {fault: "default_transaction_read_only is on", state: "25006", begin: (*stack).readOnly},
		"full disk, as told":    {fault: "every insert and update is answered with 53100", state: "53100", begin: refuseAll("53100")},
		"too many connections":  {fault: "the role may have no connection, and those it has are ended", state: "53300", begin: (*stack).noConnections},
		"deadlocks":             {fault: "a stranger locks schedules against our order", state: "40P01", begin: (*stack).deadlocks, some: true},
		"serialization failure": {fault: "one statement in five is answered with 40001", state: "40001", begin: refuseSome("40001"), some: true},
	}
}

// limitedRole is whom programs connect as, so that what they may do can be limited: a superuser
// always gets a connection.
const limitedRole = "limited"

// A database that is there and refuses to work takes nothing from a run: answers that came
// meanwhile are kept and written when it works again, nobody is taken for dead, and no process
// ends. Readiness tells.
func TestRefusingDatabase(t *testing.T) {
	t.Parallel()
	for name, r := range refusals() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, newCluster(t), name, r)
		})
	}
}

// refused lets a database refuse for a while, with runs in flight whose answers come meanwhile.
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

// limit makes the role that programs connect as: it owns what the superuser owns, and is none.
func limit(t *testing.T, cluster *devpg.Cluster) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), cluster.URL())
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	_, err = conn.Exec(t.Context(), "CREATE ROLE "+limitedRole+" LOGIN IN ROLE "+conn.Config().User)
	require.NoError(t, err)
}

// admin runs statements on the test's own pool, which no fault reaches.
func (s *stack) admin(statements ...string) {
	s.t.Helper()
	for _, sql := range statements {
		_, err := s.pool.Exec(s.t.Context(), sql)
		require.NoError(s.t, err, sql)
	}
}

// awaitRefusal waits until a worker tells of the refusal in its own log.
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

// statusOfWrite returns how the API server answers to a registration.
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

// unrecorded returns how many requests took effect whose run does not say so.
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

// readOnly makes every new transaction read-only, as a database does that was failed over to a
// standby or has run out of numbers.
func (s *stack) readOnly() func() {
	s.t.Helper()
	s.admin("ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
	return func() {
		s.t.Helper()
		s.admin("ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()")
	}
}

// noConnections ends every connection of the programs and lets them make no other.
func (s *stack) noConnections() func() {
	s.t.Helper()
	s.admin("ALTER ROLE "+limitedRole+" CONNECTION LIMIT 0", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '"+limitedRole+"'")
	return func() {
		s.t.Helper()
		s.admin("ALTER ROLE " + limitedRole + " CONNECTION LIMIT -1")
	}
}

// written are the tables that running endpoints writes.
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

// deadlocks lets a stranger lock schedules against the order in which batches do, time and again,
// until it is ended. The stranger is the more patient one, so Postgres ends the transactions of the
// programs. Between two times it lets go for as long as an interval: rows that are held all the
// time are never claimed, and then no batch has them.
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

// lockUpwards locks the schedules that batches come to last, waits until a batch waits for them,
// and then locks all the others.
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

// rest lets a time pass, unless somebody ends it.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
