package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/notices"
	noticestore "rubato/internal/store/notices"
)

// PutRule stores a rule, which is in force when it returns.
func (b *Bundle) PutRule(t *testing.T, name string, edit func(*notices.Spec)) *noticestore.Store {
	t.Helper()
	keeper := noticestore.NewStore(b.DB, &b.States.Rules)
	_, _, err := keeper.PutRule(t.Context(), Tenant, name, Rule(edit), endpoints.Condition{})
	require.NoError(t, err)
	require.NoError(t, keeper.Refresh(t.Context()))
	return keeper
}

// NoticeKinds returns the kinds of the notices that were written, the oldest first.
func (b *Bundle) NoticeKinds(t *testing.T) []string {
	t.Helper()
	return Query[[]string](t, b, "SELECT coalesce(array_agg(kind ORDER BY created_at, kind = 'recovered', number, id), '{}') FROM notices")
}

// Rule is a rule that every test may change: two failures in a row of any endpoint.
func Rule(edit func(*notices.Spec)) notices.Spec {
	s := notices.Spec{
		Event:    notices.Failures,
		Failures: 2,
		Recovery: true,
		Enabled:  true,
		Channel:  notices.Channel{Kind: notices.Webhook, URL: "http://hooks.example/"},
	}
	if edit != nil {
		edit(&s)
	}
	return s
}
