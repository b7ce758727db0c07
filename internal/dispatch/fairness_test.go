package dispatch_test

import (
	"context"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/dispatch/ready"
	"rubato/internal/egress"
	"rubato/internal/egress/egresstest"
	"rubato/internal/endpoints"
	keystore "rubato/internal/store/keys"
	"rubato/internal/waittest"
)

// due stores n endpoints of a tenant that are due now and once, and copies of one that the service
// has registered.
func (b *bundle) due(t *testing.T, tenant [16]byte, target *egresstest.Target, n int) {
	t.Helper()
	e := b.register(t, target, func(s *endpoints.Spec) { s.StartAt = time.Now().Add(24 * time.Hour) })
	b.exec(t, "INSERT INTO tenants (id, name) VALUES ($1, 'a tenant') ON CONFLICT DO NOTHING", tenant)
	b.exec(t, `WITH made AS (
			INSERT INTO endpoints (id, tenant_id, version, created_at, updated_at, spec)
			SELECT gen_random_uuid(), $3::uuid, version, created_at, updated_at, spec - 'startAt' FROM endpoints e, generate_series(1, $2) WHERE e.id = $1
			RETURNING id, tenant_id)
		INSERT INTO schedules SELECT copy.* FROM schedules s, made, LATERAL jsonb_populate_record(s,
			jsonb_build_object('endpoint_id', made.id, 'tenant_id', made.tenant_id, 'due_at', now(), 'planned_at', now(), 'slot', now())) copy
		WHERE s.endpoint_id = $1`, [16]byte(e.ID), n, tenant)
}

// TestALoneEndpointStartsBeforeAnothersBacklog: an endpoint waits only for requests that have
// begun, and not for another tenant's backlog. One tenant has a thousand due endpoints on a slow
// target, which fill all slots and the queue, when one endpoint of another tenant comes due.
func TestALoneEndpointStartsBeforeAnothersBacklog(t *testing.T) {
	t.Parallel()
	const slots, backlog = 8, 1000
	b := setup(t)
	slow, lone := startGated(t), startGated(t)
	b.due(t, keystore.DefaultTenant, slow.Target, backlog)
	p := b.work(t, func(cfg *dispatch.Config) { cfg.Slots = slots })
	for range slots {
		waittest.Receive(t, slow.arrived)
	}
	other := uuid.New()
	b.due(t, other, lone.Target, 1)

	claimed, after := false, 0
	for begun := slots; len(lone.arrived) == 0; begun++ {
		require.Less(t, begun, backlog, "the whole backlog went first")
		slow.letGo <- struct{}{}
		select {
		case <-slow.arrived:
		case <-lone.arrived:
			lone.arrived <- egresstest.Request{} // For the loop to see.
		case <-time.After(waittest.Limit(t)):
			t.Fatal("nothing starts")
		}
		if claimed {
			after++
		}
		claimed = claimed || query[bool](t, b, "SELECT count(*) > 0 FROM schedules WHERE tenant_id = $1 AND claimed_by IS NOT NULL", other)
	}
	require.LessOrEqual(t, after, 2*slots, "of the backlog, between the claim of the lone endpoint and its start")
	for range backlog {
		slow.letGo <- struct{}{}
	}
	lone.letGo <- struct{}{}
	b.await(t, 1, "SELECT count(*) FROM runs WHERE tenant_id = $1 AND status = 'succeeded'", other)
	b.await(t, backlog, "SELECT count(*) FROM runs WHERE tenant_id = $1 AND status = 'succeeded'", keystore.DefaultTenant)
	p.stop(t)
	require.Positive(t, p.counter(t, "rubato_claims_shared_total"))
}

// TestEqualTenantsShareEqually gives four tenants a backlog each and counts the starts of each,
// from the first start of the last tenant on.
func TestEqualTenantsShareEqually(t *testing.T) {
	t.Parallel()
	const slots, tenants, each, watched = 8, 4, 200, 200
	b := setup(t)
	target := startGated(t)
	for range tenants {
		b.due(t, uuid.New(), target.Target, each)
	}
	p := b.work(t, func(cfg *dispatch.Config) { cfg.Slots = slots })
	served := func() []int { // By tenant, without those that had no run.
		rows, err := b.pool.Query(t.Context(), `SELECT (SELECT count(*) FROM runs r WHERE r.tenant_id = t.id) FROM tenants t
			WHERE t.id <> $1 AND EXISTS (SELECT FROM runs r WHERE r.tenant_id = t.id) ORDER BY t.id`, keystore.DefaultTenant)
		require.NoError(t, err)
		list, err := pgx.CollectRows(rows, pgx.RowTo[int])
		require.NoError(t, err)
		return list
	}
	next := func() {
		waittest.Receive(t, target.arrived)
		target.letGo <- struct{}{}
	}
	for begun := 0; len(served()) < tenants; begun++ {
		require.Less(t, begun, tenants*each/2, "somebody is not served")
		next()
	}
	before := served()
	for range watched {
		next()
	}
	least, most := watched, 0
	for n, count := range served() {
		least, most = min(least, count-before[n]), max(most, count-before[n])
	}
	require.Less(t, most, 2*least+2*slots, "oldest first would be all and nothing")
	for range tenants * each {
		target.letGo <- struct{}{}
	}
	b.await(t, tenants*each, "SELECT count(*) FROM runs WHERE tenant_id <> $1", keystore.DefaultTenant)
	p.stop(t)
}

// TestATenantThatHangsLeavesSlotsToOthers has more endpoints of one tenant than slots, and none of
// them ever answers.
func TestATenantThatHangsLeavesSlotsToOthers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	hanging := startGated(t)
	quick := egresstest.Start(t, egresstest.Answer(egresstest.OK("ok")))
	b.due(t, keystore.DefaultTenant, hanging.Target, 200)
	p := b.work(t, func(cfg *dispatch.Config) { cfg.Slots, cfg.Grace = 64, 0 })
	for range 60 {
		waittest.Receive(t, hanging.arrived)
	}
	other := uuid.New()
	b.due(t, other, quick, 20)
	b.await(t, 20, "SELECT count(*) FROM runs WHERE tenant_id = $1 AND status = 'succeeded'", other)
	require.LessOrEqual(t, hanging.most.Load(), int32(62), "a tenant holds up to 31 times as many as are free")
	p.stop(t)
}

// TestAHostThatHangsHoldsNoMoreSlotsThanItMay has more due endpoints on one hanging host than slots
// and than the bound of the host. Claims beyond the bound have not started, and endpoints on other
// hosts run on.
func TestAHostThatHangsHoldsNoMoreSlotsThanItMay(t *testing.T) {
	t.Parallel()
	const perHost = 3
	b := setup(t)
	hanging := startGated(t)
	quick := egresstest.Start(t, egresstest.Answer(egresstest.OK("ok")))
	b.due(t, keystore.DefaultTenant, hanging.Target, 200)
	p := b.work(t, func(cfg *dispatch.Config) {
		hosts := ready.NewHosts(perHost)
		cfg.Slots, cfg.Hosts, cfg.Grace = 8, hosts, 0
		cfg.Egress = egress.New(egress.Config{
			Rules: egress.Rules{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, HostSlots: hostSlotsOf(hosts),
		})
	})
	for range perHost {
		waittest.Receive(t, hanging.arrived)
	}
	b.due(t, keystore.DefaultTenant, quick, 20)
	b.await(t, 20, "SELECT count(*) FROM runs WHERE status = 'succeeded'")
	require.Equal(t, perHost, query[int](t, b, "SELECT count(*) FROM live_runs"))
	require.Equal(t, int32(perHost), hanging.most.Load())

	for range 10 { // Those that wait for the host are next when it answers.
		hanging.letGo <- struct{}{}
	}
	b.await(t, 30, "SELECT count(*) FROM runs WHERE status = 'succeeded'")
	p.stop(t)
}

// claiming counts the claims that a worker makes while it has room.
type claiming struct {
	claims.Store
	roomy atomic.Int32
}

func (c *claiming) ClaimDue(ctx context.Context, r claims.Request) ([]claims.Claim, time.Time, error) {
	list, now, err := c.Store.ClaimDue(ctx, r)
	if r.Limit > 0 && err == nil {
		c.roomy.Add(1)
	}
	return list, now, err
}

// TestClaimsReleasedForABusyHostRest has more due endpoints at a hanging host than its request
// limit, and free slots for all. The worker must not claim the same endpoints again and again.
func TestClaimsReleasedForABusyHostRest(t *testing.T) {
	t.Parallel()
	b := setup(t)
	hanging := startGated(t)
	b.due(t, keystore.DefaultTenant, hanging.Target, 10)
	tries := &claiming{Store: b.claims}
	p := b.work(t, func(cfg *dispatch.Config) {
		cfg.Slots, cfg.Hosts, cfg.Grace, cfg.Claims = 8, ready.NewHosts(1), 0, tries
	})
	b.await(t, 9, "SELECT count(*) FROM schedules WHERE claim_token > 1")
	since := tries.roomy.Load()
	waittest.Until(t, func() bool { return tries.roomy.Load() > since+20 })
	require.Equal(t, 2, query[int](t, b, "SELECT max(claim_token)::int FROM schedules"), "claimed once, and given back")
	p.stop(t)
}
