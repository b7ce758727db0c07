package planner_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"rubato/internal/planner"
	"rubato/internal/store/dbsqlc"
	plannerstore "rubato/internal/store/planner"
	"rubato/internal/store/storetest"
)

// analysed gives a crowd a planner that has been at work: every endpoint is known to it but one in
// a thousand, one in a hundred is due, one in a thousand is left alone, and one in twenty belongs
// to a group of fifty. There are 100,000 sessions and as many suggestions.
func (b *bundle) analysed(t *testing.T) {
	t.Helper()
	b.Exec(t, `INSERT INTO planner_state (endpoint_id, due_at, trigger, claim_token, not_before, seen_version, seen_failures, seen_status, memory, parked)
		SELECT s.endpoint_id,
		       CASE WHEN n % 1000 = 500 THEN 'infinity' WHEN n % 100 = 1 THEN $1::timestamptz ELSE $1::timestamptz + n * interval '1 s' END,
		       'time_reached', 1, $1, s.version, 0, 'succeeded', '{}', CASE WHEN n % 1000 = 500 THEN 'off' END
		FROM (SELECT endpoint_id, version, row_number() OVER () AS n FROM schedules) s WHERE n % 1000 <> 999`, storetest.Noon())
	b.Exec(t, `UPDATE endpoints SET spec = jsonb_set(spec, '{labels}', labels || jsonb_build_object('group', 'g' || (labels ->> 'n')::int / 1000,
			'role', CASE WHEN (labels ->> 'n')::int % 100 = 0 THEN 'health' ELSE 'none' END))
		WHERE (labels ->> 'n')::int % 20 = 0`)
	id := `(lpad(to_hex((extract(EPOCH FROM $1::timestamptz) * 1000)::bigint + n * 100), 12, '0') || substr(md5(n::text), 1, 20))::uuid`
	b.Exec(t, `INSERT INTO planner_sessions (id, tenant_id, endpoint_id, version, started_at, finished_at, advisor, trigger, authority, outcome,
			reasoning, confidence, next_analysis_at, calls, changes, warnings, error, model, prompt_digest, prompt_tokens, completion_tokens, cost_micros)
		SELECT `+id+`, e.tenant_id, e.id, 1, $1, $1, 'heuristic', 'time_reached', 'act', CASE WHEN n % 1000 = 0 THEN 'failed' ELSE 'unchanged' END,
		       '', 1, $1, '[]', '[]', '[]', '', '', '', 0, 0, 0
		FROM (SELECT id, tenant_id, row_number() OVER () AS n FROM endpoints) e`, storetest.Noon())
	b.Exec(t, `INSERT INTO planner_suggestions (id, tenant_id, endpoint_id, session_id, advisor, version, plan, reasoning, created_at, expires_at, state, decided_at)
		SELECT `+id+`, e.tenant_id, e.id, e.id, 'heuristic', 1, '{}', '', $1, $1::timestamptz + n * interval '100 ms',
		       CASE WHEN n % 1000 = 0 THEN 'approved' WHEN n % 2 = 0 THEN 'pending' ELSE 'replaced' END, CASE WHEN n % 2 = 1 OR n % 1000 = 0 THEN now() END
		FROM (SELECT id, tenant_id, row_number() OVER () AS n FROM endpoints) e`, storetest.Noon())
	b.Exec(t, `INSERT INTO planner_spend (day, tenant_id, endpoint_id, tokens)
		SELECT $1::date - day, tenant_id, id, 100 FROM endpoints, generate_series(0, 29) day WHERE (labels ->> 'n')::int % 400 = 0`, storetest.Noon())
	b.Exec(t, "ANALYZE")
}

// statement returns what one query of the planner asks the database.
func statement[P, R any](query func(*dbsqlc.Queries, context.Context, dbsqlc.DBTX, P) (R, error), p P) storetest.Statement {
	return storetest.StatementOf(func(db dbsqlc.DBTX) error {
		_, err := query(dbsqlc.New(), context.Background(), db, p)
		return err
	})
}

// plannerReads requires an index for every statement of the planner's queue and pages. Each reads a
// bounded number of rows, however many exist.
func (b *bundle) plannerReads(t *testing.T) {
	t.Helper()
	b.analysed(t)
	now := storetest.Noon().Add(time.Hour)
	mine := [16]byte(uuid.New())
	met := storetest.Query[[][16]byte](t, b.Bundle, "SELECT array_agg(endpoint_id) FROM (SELECT endpoint_id FROM schedules ORDER BY endpoint_id LIMIT 1600) s")
	grouped := storetest.Query[[][16]byte](t, b.Bundle, "SELECT array_agg(id) FROM (SELECT id FROM endpoints WHERE labels ? 'group' AND archived_at IS NULL LIMIT 200) e")
	one := grouped[0]
	// Something has changed about every hundredth of the endpoints that a scan reads.
	b.Exec(t, "UPDATE schedules SET failure_count = 1, last_status = 'failed' WHERE endpoint_id = ANY ($1)", met[:16])
	own, day := storetest.Tenant.TenantID, dayNamed(now)
	sessions := func(edit func(*dbsqlc.PlannerSessionListParams)) storetest.Statement {
		p := dbsqlc.PlannerSessionListParams{TenantID: own, MaxRows: 51}
		edit(&p)
		return statement((*dbsqlc.Queries).PlannerSessionList, p)
	}
	suggestions := func(s planner.SuggestionState) storetest.Statement {
		return storetest.StatementOf(plannerstore.SuggestionsStatement(planner.SuggestionFilter{TenantID: own, State: s, Limit: 51}, storetest.Noon().Add(9900*time.Second)))
	}
	for name, s := range map[string]storetest.Statement{
		"scan Finished":       statement((*dbsqlc.Queries).PlannerScanFinished, dbsqlc.PlannerScanFinishedParams{Until: 1 << 40, MaxRows: 500}),
		"scan Endpoints":      statement((*dbsqlc.Queries).PlannerScanEndpoints, dbsqlc.PlannerScanEndpointsParams{After: [16]byte{0x80}, MaxRows: 1000}),
		"scan Newest":         statement((*dbsqlc.Queries).PlannerScanNewest, 100),
		"scan Insert":         statement((*dbsqlc.Queries).PlannerInsert, dbsqlc.PlannerInsertParams{Now: now, EndpointIds: met}),
		"scan TriggerChanged": statement((*dbsqlc.Queries).PlannerTriggerChanged, dbsqlc.PlannerTriggerChangedParams{Now: now, EndpointIds: met}),
		"scan TriggerGroups": statement((*dbsqlc.Queries).PlannerTriggerGroups, dbsqlc.PlannerTriggerGroupsParams{
			Now: now, EndpointIds: grouped, GroupLabel: planner.GroupLabel, RoleLabel: planner.RoleLabel, Roles: planner.Roles(), MaxGroups: 20, MaxMembers: 10,
		}),
		"scan Unpark":      statement((*dbsqlc.Queries).PlannerUnpark, dbsqlc.PlannerUnparkParams{Now: now, EndpointIds: met}),
		"Claim":            statement((*dbsqlc.Queries).PlannerClaim, dbsqlc.PlannerClaimParams{Now: &now, MaxRows: 4, PlannerID: mine, LockMs: 60_000}),
		"Release":          statement((*dbsqlc.Queries).PlannerRelease, dbsqlc.PlannerReleaseParams{Now: &now, EndpointIds: met[:4], Tokens: []int64{1, 1, 1, 1}, PlannerID: mine}),
		"ClaimLock":        statement((*dbsqlc.Queries).PlannerClaimLock, dbsqlc.PlannerClaimLockParams{EndpointID: one, PlannerID: mine, Now: &now}),
		"ClaimEnd":         statement((*dbsqlc.Queries).PlannerClaimEnd, dbsqlc.PlannerClaimEndParams{EndpointID: one, ClaimToken: 1, DueAt: now, NotBefore: now, Memory: []byte("{}")}),
		"Runs":             statement((*dbsqlc.Queries).PlannerRuns, dbsqlc.PlannerRunsParams{EndpointID: storetest.Query[[16]byte](t, b.Bundle, "SELECT id FROM endpoints WHERE key = 'key-7'"), Since: storetest.Noon(), MaxRows: 2000}),
		"Sessions":         sessions(func(*dbsqlc.PlannerSessionListParams) {}),
		"SessionsPage":     sessions(func(p *dbsqlc.PlannerSessionListParams) { p.Before = &[16]byte{1} }),
		"SessionsOfOne":    sessions(func(p *dbsqlc.PlannerSessionListParams) { p.EndpointID = &one }),
		"SessionsFailed":   sessions(func(p *dbsqlc.PlannerSessionListParams) { p.Outcome = new("failed") }),
		"SessionsCalm":     sessions(func(p *dbsqlc.PlannerSessionListParams) { p.Outcome = new("unchanged") }),
		"SessionsDrop":     statement((*dbsqlc.Queries).PlannerSessionDropBefore, [16]byte(planner.FirstSessionID(now))),
		"Suggestions":      suggestions(""),
		"Pending":          suggestions(planner.Pending),
		"Expired":          suggestions(planner.Expired),
		"Approved":         suggestions(planner.Approved),
		"Rejected":         suggestions(planner.Rejected),
		"SuggestionsDrop":  statement((*dbsqlc.Queries).PlannerSuggestionDropBefore, [16]byte(planner.FirstSessionID(now))),
		"Spending":         statement((*dbsqlc.Queries).PlannerSpendGet, dbsqlc.PlannerSpendGetParams{Day: day, TenantID: own}),
		"SpendingOfOthers": statement((*dbsqlc.Queries).PlannerSpendTop, dbsqlc.PlannerSpendTopParams{Day: day, TenantID: own, MaxRows: 10}),
	} {
		var before []storetest.Statement
		if strings.HasPrefix(name, "scan ") {
			before = append(before, storetest.StatementOf(func(db dbsqlc.DBTX) error { return dbsqlc.New().PlanByKey(context.Background(), db) }))
		}
		plan, text := b.Explain(t, s, before...)
		plan.Each(func(n storetest.Node) {
			large := n.Relation == "endpoints" || n.Relation == "schedules" || strings.HasPrefix(n.Relation, "run") ||
				strings.HasPrefix(n.Relation, "planner_")
			if n.Type == "Seq Scan" && large && n.Rows+n.Removed > 0 {
				t.Errorf("%s reads all of %s:\n%s", name, n.Relation, text)
			}
			if read := (n.Rows + n.Removed + n.Recheck) * n.Loops; large && read > 3500 {
				t.Errorf("%s reads %.0f rows of %s:\n%s", name, read, n.Relation, text)
			}
		})
	}
}

// dayNamed names the day of an instant as spendings are kept.
func dayNamed(at time.Time) string { return at.UTC().Format(time.DateOnly) }

// TestOldSessionsArePurged: sessions, suggestions and spendings go when their time is over, however
// many there are, and the rest stays.
func TestOldSessionsArePurged(t *testing.T) {
	t.Parallel()
	p := setupPlanning(t)
	e := p.endpoint(t, nil)
	at := time.Now().Add(-48 * time.Hour)
	for table, columns := range map[string]string{
		"planner_sessions": `(id, tenant_id, endpoint_id, version, started_at, finished_at, advisor, trigger, authority, outcome, reasoning, confidence,
			next_analysis_at, calls, changes, warnings, error, model, prompt_digest, prompt_tokens, completion_tokens, cost_micros)
			SELECT id, $1, $2, 1, now(), now(), 'a', 't', 'act', 'unchanged', '', 1, now(), '[]', '[]', '[]', '', '', '', 0, 0, 0`,
		"planner_suggestions": `(id, tenant_id, endpoint_id, session_id, advisor, version, plan, reasoning, created_at, expires_at, state, decided_at)
			SELECT id, $1, $2, id, 'a', 1, '{}', '', now(), now(), 'rejected', now()`,
	} {
		_, err := p.Pool.Exec(t.Context(), "INSERT INTO "+table+columns+` FROM generate_series(1, 2600) n, LATERAL (SELECT (lpad(to_hex(
			(extract(EPOCH FROM CASE WHEN n > 2590 THEN now() ELSE $3::timestamptz END) * 1000)::bigint), 12, '0') || substr(md5(n::text), 1, 20))::uuid AS id) i`,
			uuid.UUID(e.TenantID), uuid.UUID(e.ID), at)
		require.NoError(t, err)
	}
	p.Exec(t, "INSERT INTO planner_spend (day, tenant_id, endpoint_id, tokens) SELECT now()::date - n, gen_random_uuid(), gen_random_uuid(), 1 FROM unnest(ARRAY[0, 5]) n")

	require.NoError(t, p.evidence.Purge(t.Context(), time.Now().Add(-24*time.Hour)))

	require.Equal(t, 10, p.count(t, "planner_sessions"))
	require.Equal(t, 10, p.count(t, "planner_suggestions"))
	require.Equal(t, 1, p.count(t, "planner_spend"))
}

// TestThePlannerReadsNoMoreThanItReturns looks at the plans of its statements in a crowded
// database.
func TestThePlannerReadsNoMoreThanItReturns(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Crowd(t)
	b.plannerReads(t)
}
