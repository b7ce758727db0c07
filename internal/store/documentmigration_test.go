package store_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"rubato/internal/devpg/devpgtest"
	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/schedule"
	"rubato/internal/store"
	"rubato/internal/success"
)

// columnsOnce are two endpoints as they were stored before configurations were documents: one of defaults, one that uses every field.
const columnsOnce = `INSERT INTO endpoints (id, tenant_id, version, created_at, updated_at, archived_at, key, name, description, labels, url, method, headers,
		body, baseline_cron, baseline_interval_ms, timezone, dst_gap, dst_overlap, start_at, catch_up, min_interval_ms, max_interval_ms, jitter_ms,
		timeout_ms, max_execution_time_ms, max_response_kb, follow_redirects, success, retry_max_attempts, retry_backoff_ms, retry_max_backoff_ms,
		idempotent, delivery, planner)
	VALUES ('00000000-0000-0000-0000-000000000001', $1, 1, '2026-01-01', '2026-01-01', NULL, NULL, 'plain', '', '{}', 'https://a.example/', 'GET', '{}',
		'', '', 60000, 'UTC', 'run', 'once', NULL, 'once', 0, 0, 0, 30000, 60000, 100, 0, '2xx', 1, 1000, 60000, false, '{}', 'observe'),
	('00000000-0000-0000-0000-000000000002', $1, 7, '2026-01-01', '2026-02-01', '2026-03-01', 'full', 'full', 'a "text"', '{"team": "shop"}',
		'https://b.example/?{{run.id}}', 'POST', '{"Authorization": "Bearer {{secret \"token\"}}", "X": "ä\\n"}', '{"a": null}', '0 9 * * *', 0,
		'Europe/Berlin', 'skip', 'both', '2031-05-06 07:08:09.123Z', 'all', 1000, 31622400000, 86400000, 1, 1000, 0, 10, '2xx,304', 10, 1, 86400000,
		true, '{"query": {"q": "1"}, "auth": {"type": "basic", "username": "ada", "password": "{{secret \"word\"}}"}, "tls": {"skipVerify": true},
		"sign": true, "successRules": [{"type": "json", "jsonPath": "$.n", "op": "less", "value": 12.5}], "responseTailKb": 64,
		"redact": [{"pattern": "a+"}], "conditional": true}', 'act')`

// TestStoredConfigurationsBecomeDocumentsAndBack takes the migration to documents forth and back over rows of the form before.
func TestStoredConfigurationsBecomeDocumentsAndBack(t *testing.T) {
	t.Parallel()
	url := devpgtest.NewDatabase(t, devpgtest.Template{Key: "empty"})
	_, err := store.MigrateUp(t.Context(), url)
	require.NoError(t, err)
	down := func() {
		for name := ""; !strings.Contains(name, "endpoint_document"); {
			name, err = store.MigrateDown(t.Context(), url)
			require.NoError(t, err)
			require.NotEmpty(t, name)
		}
	}
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	rows := func() []string {
		found, err := conn.Query(t.Context(), "SELECT to_jsonb(e)::text FROM endpoints e ORDER BY id")
		require.NoError(t, err)
		texts, err := pgx.CollectRows(found, pgx.RowTo[string])
		require.NoError(t, err)
		return texts
	}
	down()
	_, err = conn.Exec(t.Context(), columnsOnce, store.DefaultTenant)
	require.NoError(t, err)
	before := rows()

	_, err = store.MigrateUp(t.Context(), url)
	require.NoError(t, err)
	db, err := store.Open(t.Context(), store.Config{URL: url})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	read := func(id byte) endpoints.Spec {
		e, _, err := store.NewEndpoints(db).Get(t.Context(), store.DefaultTenant, endpoints.ID{15: id})
		require.NoError(t, err)
		return e.Spec
	}
	plain := endpoints.Defaults()
	plain.Name, plain.URL, plain.BaselineInterval = "plain", "https://a.example/", time.Minute
	require.Equal(t, plain.Normalize(), read(1))
	require.Equal(t, endpoints.Spec{
		Name: "full", Key: "full", Description: `a "text"`, Labels: map[string]string{"team": "shop"}, URL: "https://b.example/?{{run.id}}", Method: "POST",
		Headers: map[string]string{"Authorization": `Bearer {{secret "token"}}`, "X": `ä\n`}, Body: `{"a": null}`, BaselineCron: "0 9 * * *",
		Timezone: "Europe/Berlin", DST: endpoints.DST{Gap: schedule.GapSkip, Overlap: schedule.OverlapBoth},
		StartAt: time.Date(2031, 5, 6, 7, 8, 9, 123e6, time.UTC), CatchUp: governor.CatchUpAll, MinInterval: time.Second, MaxInterval: 8784 * time.Hour,
		Jitter: 24 * time.Hour, Timeout: time.Millisecond, MaxExecutionTime: time.Second, FollowRedirects: 10, Success: "2xx,304",
		Retry: endpoints.Retry{MaxAttempts: 10, Backoff: time.Millisecond, MaxBackoff: 24 * time.Hour}, Idempotent: true,
		Query: map[string]string{"q": "1"}, Auth: &endpoints.Auth{Type: endpoints.AuthBasic, Username: "ada", Password: `{{secret "word"}}`},
		TLS: &endpoints.TLS{SkipVerify: true}, Sign: true, ResponseTailKB: 64, Conditional: true, Planner: endpoints.PlannerAct,
		SuccessRules: []endpoints.AnswerRule{{Type: success.JSON, JSONPath: "$.n", Op: success.Less, Value: 12.5}},
		Redact:       []endpoints.RedactRule{{Pattern: "a+"}},
	}, read(2))

	down()
	require.Equal(t, before, rows())
}
