package items_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/store/storetest"
)

// TestALiveRunIsConfirmedToItsHolder asks whether a run may still be sent, after each thing that
// speaks against it and after each that does not.
func TestALiveRunIsConfirmedToItsHolder(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		before, meanwhile func(*testing.T, *bundle, *endpoints.Endpoint)
		stale             bool
		late              time.Duration // after the end of its lock
		want              bool
	}{
		"NothingHappened":         {want: true, late: -time.Microsecond},
		"ItsLockIsOver":           {},
		"AnothersFence":           {stale: true, late: -time.Second},
		"APause":                  {meanwhile: pauseIt(governor.Indefinite), late: -time.Second},
		"APauseThatIsOver":        {meanwhile: pauseIt(storetest.Noon().Add(time.Second)), late: -time.Second, want: true},
		"AnArchive":               {meanwhile: archiveIt, late: -time.Second},
		"AskedForInAPause":        {before: inAPause, late: -time.Second, want: true},
		"AskedForAndThenPaused":   {before: askForIt, meanwhile: pauseIt(governor.Indefinite), late: -time.Second},
		"AskedForAndNothingElse":  {before: askForIt, late: -time.Second, want: true},
		"AnEditThatLeavesItsSlot": {meanwhile: renameIt, late: -time.Second, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.At(storetest.Noon())
			e := b.Register(t, nil)
			if tc.before != nil {
				tc.before(t, b, e)
			}
			c, s := b.StartOne(t, storetest.Worker{1})
			if tc.meanwhile != nil {
				tc.meanwhile(t, b, e)
			}
			held := claims.FencedRun{EndpointID: c.EndpointID, RunID: s.RunID, Token: c.Token}
			if tc.stale {
				held.Token--
			}
			b.At(s.LockedUntil.Add(tc.late))
			may, err := b.Executions.Confirm(t.Context(), e.ID, held)
			require.NoError(t, err)
			require.Equal(t, tc.want, may)
		})
	}
	t.Run("ItIsOver", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		e := b.Register(t, nil)
		c, s := b.StartOne(t, storetest.Worker{1})
		require.True(t, confirmed(t, b, e, c, s))
		b.Finish(t, storetest.Worker{1}, 0, storetest.Succeed(storetest.Worker{1}, c, s))
		require.False(t, confirmed(t, b, e, c, s))
	})
}

func confirmed(t *testing.T, b *bundle, e *endpoints.Endpoint, c claims.Claim, s dispatch.Started) bool {
	t.Helper()
	may, err := b.Executions.Confirm(t.Context(), e.ID, claims.FencedRun{EndpointID: c.EndpointID, RunID: s.RunID, Token: c.Token})
	require.NoError(t, err)
	return may
}

func pauseIt(until time.Time) func(*testing.T, *bundle, *endpoints.Endpoint) {
	return func(t *testing.T, b *bundle, e *endpoints.Endpoint) {
		t.Helper()
		if until.Equal(governor.Indefinite) {
			until = time.Time{}
		}
		_, err := b.Service.Pause(t.Context(), storetest.Tenant, e.ID, endpoints.PauseRequest{Until: until})
		require.NoError(t, err)
	}
}

func askForIt(t *testing.T, b *bundle, e *endpoints.Endpoint) {
	t.Helper()
	_, err := b.Service.RunNow(t.Context(), storetest.Tenant, e.ID, endpoints.OneOffRequest{})
	require.NoError(t, err)
}

func inAPause(t *testing.T, b *bundle, e *endpoints.Endpoint) {
	t.Helper()
	pauseIt(governor.Indefinite)(t, b, e)
	askForIt(t, b, e)
}

func archiveIt(t *testing.T, b *bundle, e *endpoints.Endpoint) {
	t.Helper()
	require.NoError(t, b.Service.Archive(t.Context(), storetest.Tenant, e.ID, 0))
}

func renameIt(t *testing.T, b *bundle, e *endpoints.Endpoint) {
	t.Helper()
	_, _, err := b.Service.Edit(t.Context(), storetest.Tenant, e.ID, 0, func(spec endpoints.Spec) (endpoints.Spec, error) {
		spec.Name = "renamed"
		return spec, nil
	})
	require.NoError(t, err)
}
