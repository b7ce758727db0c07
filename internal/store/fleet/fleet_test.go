package fleet_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"rubato/internal/auditlog"
	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/placement"
	"rubato/internal/stats"
	"rubato/internal/store/fleet"
	keystore "rubato/internal/store/keys"
	"rubato/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// operator gives the orders.
var operator = auditlog.Actor{TenantID: keystore.DefaultTenant, Name: "operator"}

// beat sends a heartbeat of a worker and returns whether it is ordered to drain.
func beat(t *testing.T, b *storetest.Bundle, by storetest.Worker, state dispatch.State, p dispatch.Placement) bool {
	t.Helper()
	drain, err := b.Executions.Beat(t.Context(), dispatch.Presence{
		ID:        by,
		Name:      "host",
		Version:   "v1",
		State:     state,
		Slots:     4,
		Placement: p,
	})
	require.NoError(t, err)
	return drain
}

func TestAnOrderToDrainReachesTheWorkerAndIsWithdrawn(t *testing.T) {
	t.Parallel()
	b := storetest.Setup(t)
	orders, worker := fleet.New(b.DB), storetest.Worker{1}
	require.False(t, beat(t, b, worker, dispatch.Active, dispatch.Placement{}))

	after, err := orders.Drain(t.Context(), operator, worker, true)
	require.NoError(t, err)
	require.Equal(t, stats.Draining, after.State, "it shows before the worker has read it")
	require.True(t, beat(t, b, worker, dispatch.Draining, dispatch.Placement{}))
	first := storetest.Query[time.Time](t, b, "SELECT drain_requested_at FROM workers")
	_, err = orders.Drain(t.Context(), auditlog.Actor{TenantID: keystore.DefaultTenant, Name: "another"}, worker, true)
	require.NoError(t, err)
	require.Equal(t, first, storetest.Query[time.Time](t, b, "SELECT drain_requested_at FROM workers"), "the first order stays")
	require.Equal(t, "operator", storetest.Query[string](t, b, "SELECT drain_requested_by FROM workers"))

	after, err = orders.Drain(t.Context(), operator, worker, false)
	require.NoError(t, err)
	require.Equal(t, stats.Draining, after.State, "its runs may not have ended")
	require.False(t, beat(t, b, worker, dispatch.Active, dispatch.Placement{}))
	actions := storetest.Query[string](t, b, "SELECT string_agg(action, ' ' ORDER BY id) FROM audit_log WHERE object_kind = 'worker'")
	require.Equal(t, "drain resume", actions, "an order that changes nothing is not recorded")
}

func TestOnlyWorkersThatHaveNotStoppedTakeOrders(t *testing.T) {
	t.Parallel()
	b := storetest.Setup(t)
	orders, stopped := fleet.New(b.DB), storetest.Worker{1}
	beat(t, b, stopped, dispatch.Inactive, dispatch.Placement{})
	for worker, kind := range map[storetest.Worker]errs.Code{stopped: errs.Conflict, {2}: errs.NotFound} {
		_, err := orders.Drain(t.Context(), operator, worker, true)
		require.Equal(t, kind, errs.CodeOf(err), "%x", worker)
	}
	require.Zero(t, storetest.Query[int64](t, b, "SELECT count(*) FROM audit_log WHERE object_kind = 'worker'"))
}

func TestRoutesNameTheTagsThatEachWorkerLacks(t *testing.T) {
	t.Parallel()
	b := storetest.Setup(t)
	now := b.At(storetest.Noon())
	e := b.Register(t, func(s *endpoints.Spec) { s.RequiredTags = []string{"region=eu", "net=internal"} })
	beat(t, b, storetest.Worker{1}, dispatch.Active, dispatch.Placement{Tags: []string{"region=eu"}})
	beat(t, b, storetest.Worker{2}, dispatch.Inactive, dispatch.Placement{Tags: []string{"net=internal", "region=eu"}})
	routes := func() stats.Routes {
		r, err := fleet.New(b.DB).Routes(t.Context(), e.ID, e.Spec.RequiredTags, nil)
		require.NoError(t, err)
		return r
	}
	r := routes()
	require.Len(t, r.Workers, 1, "a stopped worker runs nothing")
	require.Equal(t, []string{"net=internal"}, r.Workers[0].Missing)
	require.False(t, r.Routable())
	require.False(t, r.Unroutable(), "only after half a minute")
	require.Equal(t, "No active worker has the required tags net=internal.", r.Sentence(e.Spec.RequiredTags))

	_, err := b.Sweeps.Unserved(t.Context(), placement.UnroutableAfter)
	require.NoError(t, err)
	b.At(now.Add(placement.UnroutableAfter))
	require.True(t, routes().Unroutable())

	beat(t, b, storetest.Worker{3}, dispatch.Active, dispatch.Placement{Tags: []string{"net=internal", "region=eu"}})
	require.True(t, routes().Routable())
}
