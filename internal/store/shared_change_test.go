package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/waittest"
)

// awaitLockWait returns once a session of the database waits for a lock.
func (b *bundle) awaitLockWait(t *testing.T) {
	t.Helper()
	waittest.Until(t, func() bool {
		return query[int](t, b, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") > 0
	})
}

func (b *bundle) edit(t *testing.T, id endpoints.ID, edit func(*endpoints.Spec)) *endpoints.Endpoint {
	t.Helper()
	e, _, err := b.service.Edit(t.Context(), tenant, id, 0, func(s endpoints.Spec) (endpoints.Spec, error) {
		edit(&s)
		return s, nil
	})
	require.NoError(t, err)
	return e
}

// changes is everything that replans an endpoint outside a run.
var changes = map[string]func(*bundle, *testing.T, endpoints.ID){
	"Pause": func(b *bundle, t *testing.T, id endpoints.ID) {
		_, err := b.service.Pause(t.Context(), tenant, id, endpoints.PauseRequest{Reason: "maintenance"})
		require.NoError(t, err)
	},
	"Resume": func(b *bundle, t *testing.T, id endpoints.ID) {
		_, err := b.service.Resume(t.Context(), tenant, id)
		require.NoError(t, err)
	},
	"Edit": func(b *bundle, t *testing.T, id endpoints.ID) {
		b.edit(t, id, func(s *endpoints.Spec) { s.Name = "renamed" })
	},
	"IntervalHint": func(b *bundle, t *testing.T, id endpoints.ID) {
		_, _, err := b.service.SetIntervalHint(t.Context(), tenant, id, endpoints.HintRequest{Interval: 5 * time.Second, TTL: new(time.Hour)})
		require.NoError(t, err)
	},
	"OneShotHint": func(b *bundle, t *testing.T, id endpoints.ID) {
		_, _, err := b.service.SetOneShotHint(t.Context(), tenant, id, endpoints.HintRequest{In: new(5 * time.Second), TTL: new(time.Hour)})
		require.NoError(t, err)
	},
	"ClearHints": func(b *bundle, t *testing.T, id endpoints.ID) {
		_, _, err := b.service.ClearHints(t.Context(), tenant, id)
		require.NoError(t, err)
	},
	"ResetFailures": func(b *bundle, t *testing.T, id endpoints.ID) {
		_, err := b.service.ResetFailures(t.Context(), tenant, id)
		require.NoError(t, err)
	},
	"RunNow": func(b *bundle, t *testing.T, id endpoints.ID) {
		_, err := b.service.RunNow(t.Context(), tenant, id, endpoints.OneOffRequest{})
		require.NoError(t, err)
	},
	"Archive": func(b *bundle, t *testing.T, id endpoints.ID) {
		require.NoError(t, b.service.Archive(t.Context(), tenant, id, 0))
	},
}
