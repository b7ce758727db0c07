package dispatch_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"rubato/internal/auditlog"
	"rubato/internal/dispatch"
	"rubato/internal/egress/egresstest"
	"rubato/internal/endpoints"
	"rubato/internal/stats"
	"rubato/internal/store/fleet"
	keystore "rubato/internal/store/keys"
	"rubato/internal/store/pg"
)

// operator is the actor of orders.
var operator = auditlog.Actor{TenantID: keystore.DefaultTenant, Name: "ops"}

// order passes an order to the one worker of a name, and returns the worker's ID.
func (b *bundle) order(t *testing.T, name string, drain bool) [16]byte {
	t.Helper()
	db, err := pg.Open(t.Context(), pg.Config{URL: b.url})
	require.NoError(t, err)
	defer db.Close()
	id := query[uuid.UUID](t, b, "SELECT id FROM workers WHERE name = $1", name)
	_, err = fleet.New(db).Drain(t.Context(), operator, id, drain)
	require.NoError(t, err)
	return id
}

// TestDrainOrderMovesAllWorkToTheOtherWorker drains one of two workers that run 40 endpoints every
// second, with a request of it in flight. The request ends as usual, the worker is drained and
// alive, the other worker runs every due time in time, and the resumed worker claims again.
func TestDrainOrderMovesAllWorkToTheOtherWorker(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := egresstest.Start(t, egresstest.Answer(egresstest.OK("ok")))
	slow := startGated(t)
	one := b.work(t, func(c *dispatch.Config) { c.Name = "one" })
	b.listen(t, one)
	held := b.register(t, slow.Target, nil)
	<-slow.arrived // The first worker runs it.
	for range 40 {
		b.register(t, target, func(s *endpoints.Spec) { s.BaselineInterval = time.Second })
	}
	b.awaitRunsOf(t, "one", 40)
	// It polls so seldom that without the notification of the release it would be late.
	two := b.work(t, func(c *dispatch.Config) { c.Name, c.PollInterval, c.Slots = "two", time.Minute, 64 })
	b.listen(t, two)
	b.await(t, 1, "SELECT count(*) FROM workers WHERE name = 'two'")

	id := b.order(t, "one", true)

	b.await(t, 0, "SELECT count(*) FROM schedules WHERE claimed_by = $1 AND run_id IS NULL", id)
	b.await(t, 1, "SELECT count(*) FROM workers WHERE id = $1 AND state = 'draining'", id)
	b.await(t, 1, "SELECT count(*) FROM schedules WHERE claimed_by = $1", id) // Its request in flight goes on.
	drained := query[time.Time](t, b, "SELECT clock_timestamp()")
	b.awaitRunsOf(t, "two", 80)
	require.Zero(t, query[int](t, b, "SELECT count(*) FROM runs WHERE worker_id = $1 AND started_at > $2", id, drained), "a drained worker starts nothing")
	slow.letGo <- struct{}{}
	b.await(t, 1, "SELECT count(*) FROM workers WHERE id = $1 AND state = 'drained'", id)
	require.Equal(t, "succeeded", query[string](t, b, "SELECT status FROM runs WHERE endpoint_id = $1", held.ID))
	require.Zero(t, query[int](t, b, "SELECT count(*) FROM runs WHERE status NOT IN ('succeeded', 'skipped')"), "nothing is lost")
	require.Zero(t, query[int](t, b, "SELECT count(*) FROM schedules WHERE claimed_by = $1", id))
	late := "SELECT count(*) FROM runs WHERE scheduled_for > $1 AND started_at > scheduled_for + interval '20 s'"
	require.Zero(t, query[int](t, b, late, drained.Add(-time.Second)), "and nothing late")

	b.order(t, "one", false)

	b.await(t, 1, "SELECT count(*) FROM workers WHERE id = $1 AND state = 'active'", id)
	two.stop(t)
	before := query[int](t, b, "SELECT count(*) FROM runs WHERE worker_id = $1", id)
	b.awaitRunsOf(t, "one", before+40)
	require.Equal(t, []string{"drain", "resume"}, b.actions(t, stats.WorkerName(id)))
}

// awaitRunsOf waits until a worker has recorded at least so many runs.
func (b *bundle) awaitRunsOf(t *testing.T, name string, least int) {
	t.Helper()
	b.await(t, 1, "SELECT (count(*) >= $2)::int FROM runs WHERE worker_id = (SELECT id FROM workers WHERE name = $1) AND status = 'succeeded'", name, least)
}

// actions returns the actions of the audit log about an object, the oldest first.
func (b *bundle) actions(t *testing.T, object string) []string {
	t.Helper()
	return query[[]string](t, b, "SELECT array_agg(action ORDER BY id) FROM audit_log WHERE object_id = $1", object)
}
