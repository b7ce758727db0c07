package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/waittest"
)

// AwaitLockWait returns once a session of the database waits for a lock.
func (b *Bundle) AwaitLockWait(t *testing.T) {
	t.Helper()
	waittest.Until(t, func() bool {
		return Query[int](t, b, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") > 0
	})
}

// Edit changes the configuration of an endpoint.
func (b *Bundle) Edit(t *testing.T, id endpoints.ID, edit func(*endpoints.Spec)) *endpoints.Endpoint {
	t.Helper()
	e, _, err := b.Service.Edit(t.Context(), Tenant, id, 0, func(s endpoints.Spec) (endpoints.Spec, error) {
		edit(&s)
		return s, nil
	})
	require.NoError(t, err)
	return e
}

// Changes is everything that replans an endpoint outside a run.
var Changes = map[string]func(*Bundle, *testing.T, endpoints.ID){
	"Pause": func(b *Bundle, t *testing.T, id endpoints.ID) {
		_, err := b.Service.Pause(t.Context(), Tenant, id, endpoints.PauseRequest{Reason: "maintenance"})
		require.NoError(t, err)
	},
	"Resume": func(b *Bundle, t *testing.T, id endpoints.ID) {
		_, err := b.Service.Resume(t.Context(), Tenant, id)
		require.NoError(t, err)
	},
	"Edit": func(b *Bundle, t *testing.T, id endpoints.ID) {
		b.Edit(t, id, func(s *endpoints.Spec) { s.Name = "renamed" })
	},
	"IntervalHint": func(b *Bundle, t *testing.T, id endpoints.ID) {
		_, _, err := b.Service.SetIntervalHint(t.Context(), Tenant, id, endpoints.HintRequest{Interval: 5 * time.Second, TTL: new(time.Hour)})
		require.NoError(t, err)
	},
	"OneShotHint": func(b *Bundle, t *testing.T, id endpoints.ID) {
		_, _, err := b.Service.SetOneShotHint(t.Context(), Tenant, id, endpoints.HintRequest{In: new(5 * time.Second), TTL: new(time.Hour)})
		require.NoError(t, err)
	},
	"ClearHints": func(b *Bundle, t *testing.T, id endpoints.ID) {
		_, _, err := b.Service.ClearHints(t.Context(), Tenant, id)
		require.NoError(t, err)
	},
	"ResetFailures": func(b *Bundle, t *testing.T, id endpoints.ID) {
		_, err := b.Service.ResetFailures(t.Context(), Tenant, id)
		require.NoError(t, err)
	},
	"RunNow": func(b *Bundle, t *testing.T, id endpoints.ID) {
		_, err := b.Service.RunNow(t.Context(), Tenant, id, endpoints.OneOffRequest{})
		require.NoError(t, err)
	},
	"Archive": func(b *Bundle, t *testing.T, id endpoints.ID) {
		require.NoError(t, b.Service.Archive(t.Context(), Tenant, id, 0))
	},
}
