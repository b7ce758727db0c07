package store_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/runs"
	"rubato/internal/store"
	"rubato/internal/store/dbsqlc"
)

// crowd fills the tables: 100,000 endpoints, of which one in a thousand is archived and one in a thousand paused, and 60,000 runs, of
// which one in a thousand failed.
func (b *bundle) crowd(t *testing.T) {
	t.Helper()
	b.at(noon())
	b.register(t, nil)
	columns := func(table, but string) string {
		return query[string](t, b, `SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
			WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND NOT attname = ANY (string_to_array($2, ','))`, table, but)
	}
	b.exec(t, `INSERT INTO endpoints (id, tenant_id, version, created_at, updated_at, archived_at, spec)
		SELECT gen_random_uuid(), tenant_id, version, created_at, updated_at, CASE WHEN n % 1000 = 0 THEN now() END,
		       spec || jsonb_build_object('name', 'name-' || n, 'key', 'key-' || n, 'labels', jsonb_build_object('team', 't' || n % 500, 'n', n::text))
		FROM endpoints, generate_series(1, 100000) n`)
	rest := columns("schedules", "endpoint_id,paused_until")
	b.exec(t, `INSERT INTO schedules (endpoint_id, paused_until, `+rest+`)
		SELECT e.id, CASE WHEN e.key LIKE '%500' THEN '2199-01-01'::timestamptz END, `+strings.ReplaceAll("s."+rest, ", ", ", s.")+`
		FROM endpoints e, schedules s WHERE e.archived_at IS NULL AND e.key IS NOT NULL`)
	b.exec(t, `INSERT INTO runs (id, scheduled_for, endpoint_id, tenant_id, attempt, source, claim_token, worker_id, claimed_at, started_at,
			finished_at, status, reason_code, dns_us, connect_us, tls_us, wait_us, transfer_us, response_bytes, truncated, version, failure_count)
		SELECT (lpad(to_hex((extract(EPOCH FROM $1::timestamptz) * 1000)::bigint + n * 100), 12, '0') || substr(md5(n::text), 1, 20))::uuid,
		       $1::timestamptz + n * interval '100 ms', e.id, e.tenant_id, 1, 'manual', 1, e.id, $1, $1, $1,
		       CASE WHEN n % 1000 = 0 THEN 'failed' ELSE 'succeeded' END, 'x', 0, 0, 0, 0, 0, 0, false, 1, 0
		FROM generate_series(1, 60000) n, LATERAL (SELECT * FROM endpoints WHERE key = 'key-' || (1 + n % 20)) e`, noon())
	b.exec(t, `INSERT INTO run_news (tenant_id, at, run_ids, endpoint_ids)
		SELECT tenant_id, $1, ARRAY[id], ARRAY[endpoint_id] FROM runs`, noon())
	b.exec(t, "ANALYZE")
}

// node is a part of a plan as the database describes it.
type node struct {
	Type     string  `json:"Node Type"`                     //nolint:tagliatelle // The database names it so.
	Relation string  `json:"Relation Name"`                 //nolint:tagliatelle // The database names it so.
	Removed  float64 `json:"Rows Removed by Filter"`        //nolint:tagliatelle // The database names it so.
	Recheck  float64 `json:"Rows Removed by Index Recheck"` //nolint:tagliatelle // The database names it so.
	Rows     float64 `json:"Actual Rows"`                   //nolint:tagliatelle // The database names it so.
	Loops    float64 `json:"Actual Loops"`                  //nolint:tagliatelle // The database names it so.
	Plans    []node  `json:"Plans"`                         //nolint:tagliatelle // The database names it so.
}

// each visits a plan and all that is below it.
func (n node) each(visit func(node)) {
	visit(n)
	for _, below := range n.Plans {
		below.each(visit)
	}
}

// readsAPage fails for a statement that reads whole tables whose names begin with one of large, or far more of their rows than a page shows.
func (b *bundle) readsAPage(t *testing.T, name string, s store.Asked, large ...string) {
	t.Helper()
	plan, text := b.explain(t, s)
	plan.each(func(n node) {
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

// explain carries a statement out as the store does, after others of its transaction, and returns what the database did for it.
func (b *bundle) explain(t *testing.T, s store.Asked, before ...store.Asked) (node, string) {
	t.Helper()
	tx, err := b.pool.Begin(t.Context())
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
	var plans []struct{ Plan node }
	require.NoError(t, json.Unmarshal(text, &plans))
	return plans[0].Plan, string(text)
}

// TestStatementsReadNoMoreThanTheyReturn looks at the plans of statements in one crowded database, because the crowd costs more than all plans.
func TestStatementsReadNoMoreThanTheyReturn(t *testing.T) { //nolint:tparallel // Each part adds to the database.
	t.Parallel()
	b := setup(t)
	b.crowd(t)
	t.Run("Lists", b.lists)
	t.Run("ListsOfWhatWasDoneAndTold", b.listsOfPaperwork)
	t.Run("Planner", b.plannerReads)
}

// lists holds every filter of a list to an index. A page that is found among few may sort them.
func (b *bundle) lists(t *testing.T) {
	own := tenant.TenantID
	half := [16]byte{0x80}
	e := query[[16]byte](t, b, "SELECT id FROM endpoints WHERE key = 'key-7'")
	list := func(edit func(*dbsqlc.EndpointListParams)) store.Asked {
		p := dbsqlc.EndpointListParams{TenantID: own, MaxRows: 51}
		edit(&p)
		return store.ListStatement(p)
	}
	runPage := func(edit func(*dbsqlc.RunListParams)) store.Asked {
		p := dbsqlc.RunListParams{TenantID: own, MaxRows: 51}
		edit(&p)
		return store.RunsStatement(p)
	}
	found := dbsqlc.RunFindParams{
		TenantID: own, Ids: query[[][16]byte](t, b, "SELECT array_agg(id) FROM (SELECT id FROM runs ORDER BY scheduled_for LIMIT 500) r"),
		ScheduledFor: query[[]time.Time](t, b, "SELECT array_agg(scheduled_for) FROM (SELECT scheduled_for FROM runs ORDER BY scheduled_for LIMIT 500) r"),
	}
	late := noon().Add(80 * time.Minute) // A fifth of the runs is due later.
	for name, s := range map[string]store.Asked{
		"Endpoints":         list(func(*dbsqlc.EndpointListParams) {}),
		"EndpointsPage":     list(func(p *dbsqlc.EndpointListParams) { p.Before = &half }),
		"EndpointsKey":      list(func(p *dbsqlc.EndpointListParams) { p.Key = new("key-77") }),
		"EndpointsName":     list(func(p *dbsqlc.EndpointListParams) { p.Name = new("name-77") }),
		"EndpointsPrefix":   list(func(p *dbsqlc.EndpointListParams) { p.NameLike = new("name-777%") }),
		"EndpointsLabel":    list(func(p *dbsqlc.EndpointListParams) { p.Labels = json.RawMessage(`{"n":"77"}`) }),
		"EndpointsTeam":     list(func(p *dbsqlc.EndpointListParams) { p.Labels = json.RawMessage(`{"team":"t77"}`) }),
		"EndpointsActive":   list(func(p *dbsqlc.EndpointListParams) { p.State = "active" }),
		"EndpointsArchived": list(func(p *dbsqlc.EndpointListParams) { p.State = "archived" }),
		"EndpointsPaused":   list(func(p *dbsqlc.EndpointListParams) { p.State = "paused" }),
		"Runs":              runPage(func(*dbsqlc.RunListParams) {}),
		"RunsPage":          runPage(func(p *dbsqlc.RunListParams) { p.Before = &half }),
		"RunsFailed":        runPage(func(p *dbsqlc.RunListParams) { p.Status = new("failed") }),
		"RunsOfEndpoint":    runPage(func(p *dbsqlc.RunListParams) { p.EndpointID = &e }),
		"RunsFailedOfOne": runPage(func(p *dbsqlc.RunListParams) {
			p.EndpointID, p.Status = &e, new("failed")
		}),
		"RunsOfADay": runPage(func(p *dbsqlc.RunListParams) {
			p.FromAt, p.ToAt = new(noon().Truncate(24*time.Hour)), new(noon().Truncate(24*time.Hour).AddDate(0, 0, 1))
		}),
		"Sparks": store.SparksStatement(dbsqlc.ConsoleSparksParams{
			TenantID: own, FromAt: noon().Add(-24 * time.Hour), PerEndpoint: 24, // Of all that run much, and of others that never ran.
			EndpointIds: query[[][16]byte](t, b, "SELECT array_agg(id) FROM endpoints WHERE key = ANY (SELECT 'key-' || n FROM generate_series(1, 50) n)"),
		}),
		"Incidents": store.IncidentsStatement(own, noon().Add(2*time.Hour)), // One run in a thousand failed.
		"News":      store.NewsStatement(dbsqlc.RunNewsListParams{TenantID: own, AfterTxid: 1, Until: 1 << 40, MaxRows: 501}),
		"NewsRuns":  store.FindStatement(found),
		"Health": store.HealthStatement(dbsqlc.EndpointHealthParams{
			TenantID: own, EndpointID: e, Now: new(noon().Add(2 * time.Hour)), FromID: runs.FirstID(late), FromAt: late,
			WindowsMs: []int64{3600e3}, MaxRows: 100_000,
		}),
		"Overview": store.OverviewStatement(dbsqlc.TenantRunsParams{TenantID: own, FromID: runs.FirstID(late), FromAt: late, MaxRows: 1000}),
	} {
		b.readsAPage(t, name, s, "endpoints", "schedules", "run")
	}
}
