package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/notices"
	"rubato/internal/store"
)

// noticed stores a rule, which is in force when it returns.
func (b *bundle) noticed(t *testing.T, name string, edit func(*notices.Spec)) *store.Notices {
	t.Helper()
	keeper := store.NewNotices(b.db, &b.states.Rules)
	_, _, err := keeper.PutRule(t.Context(), tenant, name, rule(edit), endpoints.Condition{})
	require.NoError(t, err)
	require.NoError(t, keeper.Refresh(t.Context()))
	return keeper
}

// told returns the kinds of the notices that were written, the oldest first.
func (b *bundle) told(t *testing.T) []string {
	t.Helper()
	return query[[]string](t, b, "SELECT coalesce(array_agg(kind ORDER BY created_at, kind = 'recovered', number, id), '{}') FROM notices")
}

// rule is a rule that every test may change: two failures in a row of any endpoint.
func rule(edit func(*notices.Spec)) notices.Spec {
	s := notices.Spec{
		Event: notices.Failures, Failures: 2, Recovery: true, Enabled: true,
		Channel: notices.Channel{Kind: notices.Webhook, URL: "http://hooks.example/"},
	}
	if edit != nil {
		edit(&s)
	}
	return s
}
