package endpoints_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/runs"
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/storetest"
)

func TestLedgerMergesFinishesAndChanges(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := storetest.Noon()
	b.At(now)
	e, other := b.Register(t, func(s *endpoints.Spec) { s.BaselineInterval = time.Minute }), b.Register(t, nil)
	_, err := b.Service.Pause(t.Context(), storetest.Tenant, other.ID, endpoints.PauseRequest{Reason: "another endpoint"})
	require.NoError(t, err)
	due := b.Get(t, e.ID).State.Due.Slot
	b.At(now.Add(time.Minute))
	b.RunOne(t, storetest.Worker{1})
	b.At(now.Add(90 * time.Second))
	_, err = b.Service.Pause(t.Context(), storetest.Tenant, e.ID, endpoints.PauseRequest{Reason: "r"})
	require.NoError(t, err)
	b.At(now.Add(100 * time.Second))
	_, err = b.Service.Resume(t.Context(), storetest.Tenant, e.ID)
	require.NoError(t, err)
	b.At(now.Add(5 * time.Minute))
	b.RunOne(t, storetest.Worker{1})

	store := endpointstore.NewStore(b.States)
	read := func(size int) (list []endpoints.LedgerDecision) {
		var after endpoints.LedgerPosition
		for {
			page, err := store.Decisions(t.Context(), storetest.Tenant.TenantID, e.ID, after, size)
			require.NoError(t, err)
			if list = append(list, page...); len(page) < size {
				return list
			}
			after = page[size-1].Position
		}
	}
	whole := read(100)
	var causes []endpoints.Cause
	for i, d := range whole {
		causes = append(causes, d.Cause)
		require.Equal(t, d.Cause == endpoints.CauseFinish, d.RunID != [16]byte{})
		require.Equal(t, d.Cause == endpoints.CauseFinish, d.StoredInput == nil)
		require.NotEmpty(t, d.Decision.Steps)
		require.True(t, i == 0 || !d.At.After(whole[i-1].At))
	}
	require.Equal(t, []endpoints.Cause{
		endpoints.CauseFinish, endpoints.CauseResume, endpoints.CausePause, endpoints.CauseFinish, endpoints.CauseRegister,
	}, causes)
	require.Equal(t, [16]byte(runs.NewID(due, e.ID, 1, 0)), whole[3].RunID)
	require.Equal(t, storetest.Tenant.Name, whole[2].Author)
	require.Contains(t, string(whole[2].StoredInput), "pausedUntil")
	last, err := b.Service.Explain(t.Context(), storetest.Tenant, e.ID)
	require.NoError(t, err)
	require.Equal(t, last.Decision, whole[0].Decision)
	for size := range 6 {
		require.Equal(t, whole, read(size+1), "pages of %d", size+1)
	}
	none, err := store.Decisions(t.Context(), [16]byte{9}, e.ID, endpoints.LedgerPosition{}, 10)
	require.NoError(t, err)
	require.Empty(t, none, "of another tenant")
}
