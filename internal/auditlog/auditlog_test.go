package auditlog_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/auditlog"
)

func shown(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

func TestSecretsAreHiddenWhereTheyAreWritten(t *testing.T) {
	t.Parallel()
	headers := map[string]string{
		"Authorization": "a", "Cookie": "b", "X-Api-Key": "c", "x-csrf-TOKEN": "d", "Accept": "e", "Proxy-Auth": "f", "X-Signature": "g",
	}
	require.JSONEq(t,
		`{"Authorization":"***","Cookie":"***","X-Api-Key":"***","x-csrf-TOKEN":"***","Accept":"e","Proxy-Auth":"***","X-Signature":"***"}`,
		shown(t, auditlog.Headers(headers)))
	for url, want := range map[string]string{
		"https://a.example/p":                            "https://a.example/p",
		"https://a.example/?b=2&api_key=s&token=x#k=1":   "https://a.example/?b=2&api_key=***&token=***#k=1",
		"https://a.example/?To%6ben=s":                   "https://a.example/?To%6ben=***",
		"https://a.example/?%zz=s&token":                 "https://a.example/?%zz=***&token",
		"https://a.example/?page=1":                      "https://a.example/?page=1",
		"https://a.example/?session_id=s%26x&password=&": "https://a.example/?session_id=***&password=***&",
	} {
		var got string
		require.NoError(t, json.Unmarshal([]byte(shown(t, auditlog.URL(url))), &got))
		require.Equal(t, want, got)
	}
	require.Equal(t, auditlog.Digest("a"), auditlog.Digest("a"))
	require.NotEqual(t, auditlog.Digest("a"), auditlog.Digest("b"))
	require.NotContains(t, auditlog.Digest("canary"), "canary")
}

func TestDiffHoldsChangedMembers(t *testing.T) {
	t.Parallel()
	secret := func(v string) map[string]any { return auditlog.Headers(map[string]string{"Cookie": v}) }
	old, fresh := auditlog.Diff(
		map[string]any{"same": 1, "gone": "x", "other": "a", "headers": secret("one"), "kept": secret("one")},
		map[string]any{"same": 1, "new": "y", "other": "b", "headers": secret("two"), "kept": secret("one")},
	)
	require.JSONEq(t, `{"gone":"x","other":"a","headers":{"Cookie":"***"}}`, shown(t, old))
	require.JSONEq(t, `{"new":"y","other":"b","headers":{"Cookie":"***"}}`, shown(t, fresh))
	old, fresh = auditlog.Diff(nil, map[string]any{"a": 1})
	require.Nil(t, old)
	require.Equal(t, map[string]any{"a": 1}, fresh)
}

func TestIdentitiesSortByTime(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, later := range []time.Duration{time.Microsecond, 999 * time.Microsecond, time.Millisecond, time.Hour, 100 * 365 * 24 * time.Hour} {
		require.Less(t, auditlog.FirstID(at).String(), auditlog.FirstID(at.Add(later)).String(), later)
	}
	require.Less(t, auditlog.FirstID(at.Add(1<<62)).String(), auditlog.LastID().String())
	require.Equal(t, auditlog.FirstID(time.Unix(0, 0)), auditlog.FirstID(time.Time{}))
}
