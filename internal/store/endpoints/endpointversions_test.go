package endpoints_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/storetest"
	"rubato/internal/zombie"
)

// versions returns every version of an endpoint that is kept, the newest first.
func (b *bundle) versions(t *testing.T, of [16]byte, id endpoints.ID) []endpoints.Version {
	t.Helper()
	list, err := endpointstore.NewStore(b.States).Versions(t.Context(), of, id, math.MaxInt64, 100)
	require.NoError(t, err)
	return list
}

func TestEveryChangeKeepsTheVersionThatItMade(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.Register(t, func(s *endpoints.Spec) { s.Key, s.Name = "k", "one" })
	rename := func(name string) {
		_, _, err := b.Service.Edit(t.Context(), storetest.Tenant, e.ID, 0, func(s endpoints.Spec) (endpoints.Spec, error) {
			s.Name, s.Jitter = name, time.Duration(len(name))*time.Millisecond
			return s, nil
		})
		require.NoError(t, err)
	}
	rename("two")
	rename("two") // Changes nothing, so it makes no version.
	_, err := b.Service.Pause(t.Context(), storetest.Tenant, e.ID, endpoints.PauseRequest{Reason: "no edit"})
	require.NoError(t, err)
	out, err := b.Bulk().Upsert(t.Context(), storetest.Tenant, []endpoints.Upsert{storetest.Wanted("k", func(s *endpoints.Spec) { s.Name = "three" }), storetest.Wanted("fresh", nil)}, endpoints.Mode{})
	require.NoError(t, err)
	require.Equal(t, endpoints.Updated, out[0].Done)
	require.NoError(t, b.Service.Archive(t.Context(), storetest.Tenant, e.ID, 0))

	list := b.versions(t, storetest.Tenant.TenantID, e.ID)
	require.Len(t, list, 4)
	for i, v := range list {
		require.EqualValues(t, 4-i, v.Number)
		require.Equal(t, storetest.Tenant.Name, v.ChangedBy)
		action := storetest.Query[string](t, b.Bundle, "SELECT action FROM audit_log WHERE id = $1 AND object_id = $2", v.AuditID, e.ID.String())
		require.Equal(t, []string{"archive", "edit", "edit", "register"}[i], action)
		require.True(t, v.ChangedAt.Equal(storetest.Query[time.Time](t, b.Bundle, "SELECT at FROM audit_log WHERE id = $1", v.AuditID)))
	}
	require.Equal(t, []string{"three", "three", "two", "one"}, []string{list[0].Spec.Name, list[1].Spec.Name, list[2].Spec.Name, list[3].Spec.Name})
	require.Equal(t, []string{}, list[0].Changes, "archiving changes no field")
	require.Nil(t, list[3].Changes, "there is none before it")
	require.Contains(t, list[1].Changes, "name")
	require.Equal(t, []string{"name", "jitterMs"}, list[2].Changes)
	require.Equal(t, b.Get(t, e.ID).Spec, list[0].Spec)
	require.Len(t, b.versions(t, storetest.Tenant.TenantID, out[1].Endpoint.ID), 1)

	require.Empty(t, b.versions(t, [16]byte{9}, e.ID), "another tenant")
	older, err := endpointstore.NewStore(b.States).Versions(t.Context(), storetest.Tenant.TenantID, e.ID, 3, 1)
	require.NoError(t, err)
	require.Len(t, older, 1)
	require.EqualValues(t, 2, older[0].Number)
	require.Equal(t, []string{"name", "jitterMs"}, older[0].Changes, "the last of a page is compared as well")
}

func TestAVersionGoesWhenItsSuccessorIsAsOldAsAuditEntriesThatGo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e, other := b.Register(t, nil), b.Register(t, nil)
	for _, name := range []string{"two", "three"} {
		_, _, err := b.Service.Edit(t.Context(), storetest.Tenant, e.ID, 0, func(s endpoints.Spec) (endpoints.Spec, error) {
			s.Name = name
			return s, nil
		})
		require.NoError(t, err)
	}
	b.Exec(t, "UPDATE endpoint_versions SET changed_at = changed_at - interval '40 days', replaced_at = replaced_at - interval '40 days' WHERE version = 1")
	b.Exec(t, "UPDATE endpoint_versions SET changed_at = changed_at - interval '40 days' WHERE version = 2")
	sweep := func(keep time.Duration) {
		_, err := b.Sweeps.KeepHistory(t.Context(), zombie.Retention{Runs: 24 * time.Hour, Bodies: 24 * time.Hour, Audit: keep, DaysAhead: 1})
		require.NoError(t, err)
	}
	sweep(0)
	require.Len(t, b.versions(t, storetest.Tenant.TenantID, e.ID), 3, "kept for good")
	sweep(30 * 24 * time.Hour)
	left := b.versions(t, storetest.Tenant.TenantID, e.ID)
	require.Len(t, left, 2, "the version that was in force 30 days ago stays")
	require.Nil(t, left[1].Changes, "the one before it is gone")
	sweep(time.Microsecond)
	require.Len(t, b.versions(t, storetest.Tenant.TenantID, e.ID), 1)
	require.Len(t, b.versions(t, storetest.Tenant.TenantID, other.ID), 1, "the current one stays, however old")
}
