package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/notices"
)

// TestARuleIsStoredUnderItsConditionOnly has two who edit what is there, and two who make what is not.
func TestARuleIsStoredUnderItsConditionOnly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	keeper := b.noticed(t, "failing", nil)
	put := func(name string, only endpoints.Condition) error {
		_, _, err := keeper.PutRule(t.Context(), tenant, name, rule(nil), only)
		return err
	}
	window := func(only endpoints.Condition) error {
		_, _, err := keeper.PutWindow(t.Context(), tenant, "upgrade", notices.WindowSpec{StartsAt: noon(), EndsAt: noon().Add(time.Hour)}, only)
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
	stored, err := keeper.GetRule(t.Context(), tenant.TenantID, "failing")
	require.NoError(t, err)
	require.Equal(t, int64(2), stored.Version, "what was refused changed nothing")
	require.Equal(t, errs.Precondition, errs.CodeOf(keeper.DeleteRule(t.Context(), tenant, "failing", 1)))
	require.NoError(t, keeper.DeleteRule(t.Context(), tenant, "failing", 2))
}
