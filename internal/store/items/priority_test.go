package items_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/endpoints"
	"rubato/internal/store/storetest"
)

// TestAStepOfPriorityIsWorthAMinute claims one endpoint after the other while five are due.
func TestAStepOfPriorityIsWorthAMinute(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	names := map[[16]byte]string{}
	for _, due := range []struct {
		name     string
		priority endpoints.PriorityName
		late     time.Duration
	}{
		{"critical", "critical", 0},
		{"high", "high", 50 * time.Second},
		{"normal", "normal", 115 * time.Second},
		{"low", "low", 165 * time.Second},
		{"old and low", "low", 200 * time.Second}, // It has waited for three steps and more.
	} {
		e := b.Register(t, func(s *endpoints.Spec) { s.Name, s.Priority = due.name, due.priority })
		b.Exec(t, "UPDATE schedules SET due_at = $2, planned_at = $2 WHERE endpoint_id = $1", e.ID, now.Add(-due.late))
		names[e.ID] = due.name
	}
	for _, shares := range [][][16]byte{nil, {storetest.Tenant.TenantID}} {
		var order []string
		for range names {
			list, _, err := b.Claims.ClaimDue(t.Context(), claims.Request{
				Worker:  storetest.Worker{1},
				Limit:   1,
				Share:   1,
				Tenants: shares,
				LockTTL: time.Minute,
			})
			require.NoError(t, err)
			require.Len(t, list, 1)
			order = append(order, names[list[0].EndpointID])
		}
		require.Equal(t, []string{"old and low", "critical", "normal", "high", "low"}, order)
		b.Exec(t, "UPDATE schedules SET claimed_by = NULL, claimed_at = NULL, claim_token = claim_token + 1, due_at = planned_at")
	}
}

func TestAOneOffRunHasItsOwnPriorityOrThatOfItsEndpoint(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.Register(t, func(s *endpoints.Spec) { s.Priority = "high" })
	priority := func() int16 {
		return storetest.Query[int16](t, b.Bundle, "SELECT priority FROM schedules WHERE endpoint_id = $1", e.ID)
	}
	require.Equal(t, int16(1), priority())
	b.RunOne(t, storetest.Worker{1})
	require.Equal(t, int16(1), priority(), "a finish keeps it")

	for name, want := range map[endpoints.PriorityName]int16{"": 1, "low": -1, "critical": 2} {
		_, err := b.Service.RunNow(t.Context(), storetest.Tenant, e.ID, endpoints.OneOffRequest{Priority: name})
		require.NoError(t, err)
		require.Equal(t, want, priority(), name)
		b.RunOne(t, storetest.Worker{1})
		require.Equal(t, int16(1), priority(), "the next run is the endpoint's own")
	}
	b.Edit(t, e.ID, func(s *endpoints.Spec) { s.Priority = "low" })
	require.Equal(t, int16(-1), priority())
}
