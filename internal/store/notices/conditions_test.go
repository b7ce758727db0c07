package notices_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/notices"
	"rubato/internal/store/storetest"
)

// TestARuleIsStoredUnderItsConditionOnly has two concurrent edits of an existing rule, and two
// concurrent creations of a new one.
func TestARuleIsStoredUnderItsConditionOnly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	keeper := b.PutRule(t, "failing", nil)
	put := func(name string, only endpoints.Condition) error {
		_, _, err := keeper.PutRule(t.Context(), storetest.Tenant, name, storetest.Rule(nil), only)
		return err
	}
	window := func(only endpoints.Condition) error {
		_, _, err := keeper.PutWindow(t.Context(), storetest.Tenant, "upgrade", notices.WindowSpec{StartsAt: storetest.Noon(), EndsAt: storetest.Noon().Add(time.Hour)}, only)
		return err
	}
	for name, act := range map[string]func() error{
		"Edit":   func() error { return put("failing", endpoints.Condition{Present: true, Version: 1}) },
		"Create": func() error { return put("other", endpoints.Condition{Absent: true}) },
		"Window": func() error { return window(endpoints.Condition{Absent: true}) },
	} {
		require.NoError(t, act(), name)
		require.Equal(t, errs.Precondition, errs.CodeOf(act()), "%s: of two one is stored", name)
	}
	require.Equal(t, errs.Precondition, errs.CodeOf(put("third", endpoints.Condition{Present: true})))
	stored, err := keeper.GetRule(t.Context(), storetest.Tenant.TenantID, "failing")
	require.NoError(t, err)
	require.Equal(t, int64(2), stored.Version, "what was refused changed nothing")
	require.Equal(t, errs.Precondition, errs.CodeOf(keeper.DeleteRule(t.Context(), storetest.Tenant, "failing", 1)))
	require.NoError(t, keeper.DeleteRule(t.Context(), storetest.Tenant, "failing", 2))
}

// TestRuleOfArchivedEndpointCanBeEdited has a rule and a window of one endpoint, which is archived.
func TestRuleOfArchivedEndpointCanBeEdited(t *testing.T) {
	t.Parallel()
	b := setup(t)
	gone, other := b.Register(t, nil).ID, b.Register(t, nil).ID
	of := func(id endpoints.ID) notices.Spec {
		return storetest.Rule(func(s *notices.Spec) { s.Scope.EndpointID = id })
	}
	hour := func(id endpoints.ID) notices.WindowSpec {
		return notices.WindowSpec{Scope: notices.Scope{EndpointID: id}, StartsAt: storetest.Noon(), EndsAt: storetest.Noon().Add(time.Hour)}
	}
	keeper := b.PutRule(t, "failing", func(s *notices.Spec) { s.Scope.EndpointID = gone })
	put := func(name string, s notices.Spec) error {
		_, _, err := keeper.PutRule(t.Context(), storetest.Tenant, name, s, endpoints.Condition{})
		return err
	}
	cover := func(name string, s notices.WindowSpec) error {
		_, _, err := keeper.PutWindow(t.Context(), storetest.Tenant, name, s, endpoints.Condition{})
		return err
	}
	require.NoError(t, cover("upgrade", hour(gone)))
	require.NoError(t, b.Service.Archive(t.Context(), storetest.Tenant, gone, 0))

	off := of(gone)
	off.Enabled = false
	unknown, err := keeper.Unknown(t.Context(), storetest.Tenant.TenantID, "failing", off)
	require.NoError(t, err)
	require.Empty(t, unknown)
	require.NoError(t, put("failing", off))
	require.NoError(t, cover("upgrade", hour(gone)))

	require.Equal(t, errs.Invalid, errs.CodeOf(put("new", of(gone))), "what names it anew is refused")
	require.Equal(t, errs.Invalid, errs.CodeOf(cover("new", hour(gone))))
	unknown, err = keeper.Unknown(t.Context(), storetest.Tenant.TenantID, "new", off)
	require.NoError(t, err)
	require.Len(t, unknown, 1)
	require.NoError(t, put("failing", of(other)))
	require.NoError(t, cover("upgrade", hour(other)))
	require.Equal(t, errs.Invalid, errs.CodeOf(put("failing", of(gone))), "there is no way back")
	require.Equal(t, errs.Invalid, errs.CodeOf(cover("upgrade", hour(gone))))
}
