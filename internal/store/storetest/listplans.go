package storetest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Crowd fills the tables: 100,000 endpoints, of which one in a thousand is archived and one in a
// thousand paused, and 60,000 runs, of which one in a thousand failed. With -short it skips the
// test, because the race detector learns nothing from the plans of Postgres.
func (b *Bundle) Crowd(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("plans on full tables are checked without -short") //nolint:forbidigo // -short alone leaves it out.
	}
	b.At(Noon())
	b.Register(t, nil)
	columns := func(table, but string) string {
		return Query[string](t, b, `SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
			WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND NOT attname = ANY (string_to_array($2, ','))`, table, but)
	}
	b.Exec(t, "ALTER TABLE endpoints DROP CONSTRAINT endpoints_sound") // It takes half the time, and no plan needs it.
	b.Exec(t, `INSERT INTO endpoints (id, tenant_id, version, created_at, updated_at, archived_at, spec)
		SELECT gen_random_uuid(), tenant_id, version, created_at, updated_at, CASE WHEN n % 1000 = 0 THEN now() END,
		       spec || jsonb_build_object('name', 'name-' || n, 'key', 'key-' || n, 'url', 'http://host-' || n % 500 || '.example/', 'labels', jsonb_build_object('team', 't' || n % 500, 'n', n::text))
		FROM endpoints, generate_series(1, 100000) n`)
	rest := columns("schedules", "endpoint_id,paused_until")
	b.Exec(t, `INSERT INTO schedules (endpoint_id, paused_until, `+rest+`)
		SELECT e.id, CASE WHEN e.key LIKE '%500' THEN '2199-01-01'::timestamptz END, `+strings.ReplaceAll("s."+rest, ", ", ", s.")+`
		FROM endpoints e, schedules s WHERE e.archived_at IS NULL AND e.key IS NOT NULL`)
	b.Exec(t, `INSERT INTO runs (id, scheduled_for, endpoint_id, tenant_id, attempt, source, claim_token, worker_id, claimed_at, started_at,
			finished_at, status, reason_code, dns_us, connect_us, tls_us, wait_us, transfer_us, response_bytes, truncated, version, failure_count, next_run_at, next_source)
		SELECT (lpad(to_hex((extract(EPOCH FROM $1::timestamptz) * 1000)::bigint + n * 100), 12, '0') || substr(md5(n::text), 1, 20))::uuid,
		       $1::timestamptz + n * interval '100 ms', e.id, e.tenant_id, 1, 'baseline-interval', 1, e.id, $1, $1, $1,
		       CASE WHEN n % 1000 = 0 THEN 'failed' ELSE 'succeeded' END, 'x', 0, 0, 0, 0, 0, 0, false, 1, 0, $1::timestamptz + interval '1 day', 'baseline-interval'
		FROM generate_series(1, 60000) n, LATERAL (SELECT * FROM endpoints WHERE key = 'key-' || (1 + n % 20)) e`, Noon())
	b.Exec(t, `INSERT INTO finished_runs (tenant_id, at, run_ids, endpoint_ids)
		SELECT tenant_id, $1, ARRAY[id], ARRAY[endpoint_id] FROM runs`, Noon())
	b.Exec(t, "ANALYZE")
}

// Explain executes a statement as the store does, after the earlier statements of its transaction,
// and returns the executed plan, also as text.
func (b *Bundle) Explain(t *testing.T, s Statement, before ...Statement) (Node, string) {
	t.Helper()
	tx, err := b.Pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), "SET LOCAL plan_cache_mode = 'force_custom_plan'")
	require.NoError(t, err)
	for _, first := range before {
		_, err := tx.Exec(t.Context(), first.SQL, first.Args...)
		require.NoError(t, err)
	}
	var text []byte
	require.NoError(t, tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, FORMAT JSON) "+s.SQL, s.Args...).Scan(&text))
	var plans []struct{ Plan Node }
	require.NoError(t, json.Unmarshal(text, &plans))
	return plans[0].Plan, string(text)
}

// ReadsAPage fails for a statement that reads whole tables whose names begin with one of large, or
// far more of their rows than a page shows.
func (b *Bundle) ReadsAPage(t *testing.T, name string, s Statement, large ...string) {
	t.Helper()
	plan, text := b.Explain(t, s)
	plan.Each(func(n Node) {
		if !slices.ContainsFunc(large, func(prefix string) bool { return strings.HasPrefix(n.Relation, prefix) }) {
			return
		}
		if n.Type == "Seq Scan" && n.Rows+n.Removed > 0 {
			t.Errorf("%s reads all of %s:\n%s", name, n.Relation, text)
		}
		if read := (n.Rows + n.Removed + n.Recheck) * n.Loops; read > 2000 {
			t.Errorf("%s reads %.0f rows of %s for a page:\n%s", name, read, n.Relation, text)
		}
	})
}

// Node is a node of an executed plan.
type Node struct {
	Type     string  `json:"Node Type"`                     //nolint:tagliatelle // The database names it so.
	Relation string  `json:"Relation Name"`                 //nolint:tagliatelle // The database names it so.
	Removed  float64 `json:"Rows Removed by Filter"`        //nolint:tagliatelle // The database names it so.
	Recheck  float64 `json:"Rows Removed by Index Recheck"` //nolint:tagliatelle // The database names it so.
	Rows     float64 `json:"Actual Rows"`                   //nolint:tagliatelle // The database names it so.
	Loops    float64 `json:"Actual Loops"`                  //nolint:tagliatelle // The database names it so.
	Plans    []Node  `json:"Plans"`                         //nolint:tagliatelle // The database names it so.
}

// Each visits a plan node and all its descendants.
func (n Node) Each(visit func(Node)) {
	visit(n)
	for _, below := range n.Plans {
		below.Each(visit)
	}
}
