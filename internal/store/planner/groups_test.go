package planner_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/planner"
	"rubato/internal/store/storetest"
)

// member registers an endpoint of a group; role may be empty.
func (p *planning) member(t *testing.T, group, role string) *endpoints.Endpoint {
	t.Helper()
	return p.endpoint(t, func(s *endpoints.Spec) {
		s.Labels = map[string]string{planner.GroupLabel: group}
		if role != "" {
			s.Labels[planner.RoleLabel] = role
		}
	})
}

// closeAll ends the claims of tickets without a change, with the next look an hour away.
func (p *planning) closeAll(t *testing.T, e *endpoints.Endpoint, tickets []planner.Claim) {
	t.Helper()
	for _, ticket := range tickets {
		c := p.closing(e)
		c.Apply, c.Session.EndpointID, c.SeenStatus, c.NotBefore = nil, ticket.Account.EndpointID, "succeeded", time.Now()
		require.NoError(t, p.one.Complete(t.Context(), ticket, c))
	}
}

// fails makes an endpoint look as if it had failed so many times in a row.
func (p *planning) fails(t *testing.T, e *endpoints.Endpoint, times int) {
	t.Helper()
	status := "failed"
	if times == 0 {
		status = "succeeded"
	}
	p.Exec(t, fmt.Sprintf(`UPDATE schedules SET last_status = '%s', failure_count = %d, last_slot = now(), last_attempt = 1, last_started_at = now(),
		last_finished_at = now() WHERE endpoint_id = '%s'`, status, times, uuid.UUID(e.ID)))
}

// triggers returns why endpoints were claimed.
func triggers(tickets []planner.Claim) map[endpoints.ID]planner.Trigger {
	why := map[endpoints.ID]planner.Trigger{}
	for _, ticket := range tickets {
		why[ticket.Account.EndpointID] = ticket.Trigger
	}
	return why
}

// An endpoint with a role in a group is analysed as soon as another endpoint of the group begins to
// fail, and again when the failures end. Others are not.
func TestFailingEndpointTriggersAnalysisOfGroup(t *testing.T) {
	t.Parallel()
	p := setupPlanning(t)
	orders, load := p.member(t, "sale", ""), p.member(t, "sale", "")
	health, alert := p.member(t, "sale", planner.RoleHealth), p.member(t, "sale", planner.RoleAlert)
	elsewhere := p.member(t, "night", planner.RoleHealth)
	p.closeAll(t, orders, p.claim(t, p.one))
	require.Empty(t, p.claim(t, p.one))

	for _, turn := range []struct {
		failures int
		helpers  bool
	}{{1, true}, {2, false}, {4, false}, {0, true}} {
		p.fails(t, orders, turn.failures)
		list := p.claim(t, p.one)
		want := map[endpoints.ID]planner.Trigger{orders.ID: planner.FailuresChanged}
		if turn.helpers {
			want[health.ID], want[alert.ID] = planner.GroupChanged, planner.GroupChanged
			require.Equal(t, orders.ID, list[0].Account.EndpointID, "who fails goes first")
		}
		require.Equal(t, want, triggers(list), "%d failures", turn.failures)
		require.NotContains(t, want, load.ID)
		require.NotContains(t, want, elsewhere.ID)
		p.closeAll(t, orders, list)
	}
	require.Empty(t, p.claim(t, p.one))
}

// A call for help neither shortens the least time between two analyses nor gets lost while the
// helper is being analysed. One that the planner leaves alone stays so, and calls for help all the
// same.
func TestCallForHelpRespectsTheAnalysisLimits(t *testing.T) {
	t.Parallel()
	p := setupPlanning(t)
	orders := p.member(t, "sale", "")
	health, off := p.member(t, "sale", planner.RoleHealth), p.member(t, "sale", planner.RoleHealth)
	var mine planner.Claim
	for _, ticket := range p.claim(t, p.one) {
		if ticket.Account.EndpointID == health.ID {
			mine = ticket
			continue
		}
		require.NoError(t, p.one.Park(t.Context(), ticket, planner.ParkedOff, 1))
	}

	p.fails(t, orders, 1)
	require.Empty(t, p.claim(t, p.two), "the helper is being analysed, and the others are parked")
	c := p.closing(health)
	c.Apply, c.NotBefore = nil, time.Now().Add(time.Minute)
	require.NoError(t, p.one.Complete(t.Context(), mine, c))
	require.Empty(t, p.claim(t, p.two), "not before it may be")
	p.Exec(t, "UPDATE planner_state SET due_at = due_at - interval '1 minute', not_before = not_before - interval '1 minute' WHERE parked IS NULL")
	require.Equal(t, map[endpoints.ID]planner.Trigger{health.ID: planner.GroupChanged}, triggers(p.claim(t, p.two)))
	require.NotEqual(t, off.ID, health.ID)
}

// The inputs of an analysis in a large group contain the failing siblings, wherever they are in its
// order.
func TestFailingSiblingIsIncludedInInputs(t *testing.T) {
	t.Parallel()
	p := setupPlanning(t)
	orders := p.member(t, "sale", "")
	for range planner.MaxSiblings + 2 {
		p.member(t, "sale", "")
	}
	health := p.member(t, "sale", planner.RoleHealth)
	p.fails(t, orders, 3)

	m, err := p.evidence.Load(t.Context(), planner.Account{TenantID: health.TenantID, EndpointID: health.ID})

	require.NoError(t, err)
	require.Len(t, m.Siblings, planner.MaxSiblings)
	require.Equal(t, orders.ID, m.Siblings[0].Endpoint.ID)
}

// A sibling with its planner off or out of service is omitted from the inputs and triggers no
// analysis.
func TestSiblingWithPlannerOffIsOmitted(t *testing.T) {
	t.Parallel()
	p := setupPlanning(t)
	health, orders := p.member(t, "sale", planner.RoleHealth), p.member(t, "sale", "")
	gone := p.member(t, "sale", "")
	off := func(s *endpoints.Spec) {
		s.Labels, s.Planner = map[string]string{planner.GroupLabel: "sale"}, endpoints.PlannerOff
	}
	payroll := p.endpoint(t, off)
	for range 5 * planner.MaxSiblings { // However many of them are newer.
		p.endpoint(t, off)
	}
	require.NoError(t, p.Service.Archive(t.Context(), storetest.Tenant, gone.ID, 0))
	p.closeAll(t, orders, p.claim(t, p.one))

	p.fails(t, payroll, 1)
	require.NotContains(t, triggers(p.claim(t, p.one)), health.ID)

	m, err := p.evidence.Load(t.Context(), planner.Account{TenantID: health.TenantID, EndpointID: health.ID})
	require.NoError(t, err)
	require.Len(t, m.Siblings, 1)
	require.Equal(t, orders.ID, m.Siblings[0].Endpoint.ID)
}
