package views_test

import (
	"testing"
	"time"

	"rubato/internal/runs"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/storetest"
	"rubato/internal/store/views"
)

// TestStatementsReadNoMoreThanTheyReturn looks at the plans of statements in one crowded database,
// because the crowd costs more than all plans.
func TestStatementsReadNoMoreThanTheyReturn(t *testing.T) { //nolint:tparallel // Each part adds to the database.
	t.Parallel()
	b := setup(t)
	b.Crowd(t)
	t.Run("Lists", b.lists)
	t.Run("ListsOfWhatWasDoneAndTold", b.listsOfPaperwork)
	t.Run("Tempo", b.tempo)
}

// tempo holds the statements behind the tempo of an endpoint and its decisions to an index. One
// endpoint in a thousand has many decisions.
func (b *bundle) tempo(t *testing.T) {
	own := storetest.Tenant.TenantID
	e := storetest.Query[[16]byte](t, b.Bundle, "SELECT id FROM endpoints WHERE key = 'key-7'")
	b.Exec(t, `INSERT INTO decisions (endpoint_id, decided_at, cause, author, version, next_run_at, next_source, next_steps, input, claim_token, basis)
		SELECT e.id, $1::timestamptz + n * interval '1 s', 'edit', 'x', 1, $1, 'baseline-interval', '[]', '{}', 1, '{}'
		FROM generate_series(1, 1000) n, LATERAL (SELECT id FROM endpoints WHERE key = ANY (SELECT 'key-' || k FROM generate_series(1, 50) k)) e`, storetest.Noon())
	b.Exec(t, "ANALYZE decisions")
	late := storetest.Noon().Add(80 * time.Minute) // A fifth of the runs is due later.
	steps := dbsqlc.EndpointLastStepsParams{EndpointID: e, TenantID: own, FromAt: late}
	for n := range 48 {
		steps.Numbers = append(steps.Numbers, int64(n))
		steps.FromIds = append(steps.FromIds, runs.FirstID(late.Add(time.Duration(n)*time.Minute)))
		steps.ToIds = append(steps.ToIds, runs.FirstID(late.Add(time.Duration(n+1)*time.Minute)))
	}
	asked := func(ask func(q *dbsqlc.Queries, tx dbsqlc.DBTX) error) storetest.Statement {
		return storetest.StatementOf(func(tx dbsqlc.DBTX) error { return ask(dbsqlc.New(), tx) })
	}
	for name, s := range map[string]storetest.Statement{
		"EndpointLooks": asked(func(q *dbsqlc.Queries, tx dbsqlc.DBTX) error {
			_, err := q.EndpointLooks(t.Context(), tx, dbsqlc.EndpointLooksParams{
				EndpointID: e,
				TenantID:   own,
				FromID:     runs.FirstID(late),
				FromAt:     late,
				StepMs:     60_000,
				MaxRows:    10_000,
			})
			return err
		}),
		"EndpointLastSteps": asked(func(q *dbsqlc.Queries, tx dbsqlc.DBTX) error {
			_, err := q.EndpointLastSteps(t.Context(), tx, steps)
			return err
		}),
		"EndpointPauses": asked(func(q *dbsqlc.Queries, tx dbsqlc.DBTX) error {
			_, err := q.EndpointPauses(t.Context(), tx, dbsqlc.EndpointPausesParams{
				EndpointID: e,
				TenantID:   own,
				FromID:     runs.FirstID(late),
				FromAt:     late,
			})
			return err
		}),
		"RunDecisions": asked(func(q *dbsqlc.Queries, tx dbsqlc.DBTX) error {
			_, err := q.RunDecisionList(t.Context(), tx, dbsqlc.RunDecisionListParams{
				EndpointID: e,
				TenantID:   own,
				Before:     [16]byte{0xff},
				MaxRows:    51,
			})
			return err
		}),
		"Decisions": asked(func(q *dbsqlc.Queries, tx dbsqlc.DBTX) error {
			_, err := q.DecisionList(t.Context(), tx, dbsqlc.DecisionListParams{
				EndpointID: e,
				TenantID:   own,
				Before:     1 << 60,
				MaxRows:    51,
			})
			return err
		}),
		"Savings": asked(func(q *dbsqlc.Queries, tx dbsqlc.DBTX) error {
			_, err := q.ConsoleSavings(t.Context(), tx, dbsqlc.ConsoleSavingsParams{
				TenantID: own,
				FromAt:   storetest.Noon(),
				MaxRows:  1000,
			})
			return err
		}),
	} {
		b.ReadsAPage(t, name, s, "endpoints", "schedules", "run", "decisions")
	}
}

// lists holds every filter of a list to an index. A page that is found among few may sort them.
func (b *bundle) lists(t *testing.T) {
	own := storetest.Tenant.TenantID
	half := [16]byte{0x80}
	e := storetest.Query[[16]byte](t, b.Bundle, "SELECT id FROM endpoints WHERE key = 'key-7'")
	runPage := func(edit func(*dbsqlc.RunListParams)) storetest.Statement {
		p := dbsqlc.RunListParams{TenantID: own, MaxRows: 51}
		edit(&p)
		return RunsStatement(p)
	}
	found := dbsqlc.RunFindParams{
		TenantID: own, Ids: storetest.Query[[][16]byte](t, b.Bundle, "SELECT array_agg(id) FROM (SELECT id FROM runs ORDER BY scheduled_for LIMIT 500) r"),
		ScheduledFor: storetest.Query[[]time.Time](t, b.Bundle, "SELECT array_agg(scheduled_for) FROM (SELECT scheduled_for FROM runs ORDER BY scheduled_for LIMIT 500) r"),
	}
	late := storetest.Noon().Add(80 * time.Minute) // A fifth of the runs is due later.
	for name, s := range map[string]storetest.Statement{
		"Runs":           runPage(func(*dbsqlc.RunListParams) {}),
		"RunsPage":       runPage(func(p *dbsqlc.RunListParams) { p.Before = &half }),
		"RunsFailed":     runPage(func(p *dbsqlc.RunListParams) { p.Status = new("failed") }),
		"RunsOfEndpoint": runPage(func(p *dbsqlc.RunListParams) { p.EndpointID = &e }),
		"RunsFailedOfOne": runPage(func(p *dbsqlc.RunListParams) {
			p.EndpointID, p.Status = &e, new("failed")
		}),
		"RunsOfADay": runPage(func(p *dbsqlc.RunListParams) {
			p.FromAt, p.ToAt = new(storetest.Noon().Truncate(24*time.Hour)), new(storetest.Noon().Truncate(24*time.Hour).AddDate(0, 0, 1))
		}),
		"Sparks": SparksStatement(dbsqlc.ConsoleSparklinesParams{
			TenantID: own, FromAt: storetest.Noon().Add(-24 * time.Hour), PerEndpoint: 24, // Of all that run much, and of others that never ran.
			EndpointIds: storetest.Query[[][16]byte](t, b.Bundle, "SELECT array_agg(id) FROM endpoints WHERE key = ANY (SELECT 'key-' || n FROM generate_series(1, 50) n)"),
		}),
		"Incidents":    storetest.StatementOf(views.IncidentsStatement(own, storetest.Noon().Add(2*time.Hour))), // One run in a thousand failed.
		"FinishedRuns": FinishedRunsStatement(dbsqlc.FinishedRunsListParams{TenantID: own, AfterTxid: 1, Until: 1 << 40, MaxRows: 501}),
		"FeedRuns":     FindStatement(found),
		"Health": HealthStatement(dbsqlc.EndpointHealthParams{
			TenantID: own, EndpointID: e, Now: new(storetest.Noon().Add(2 * time.Hour)), FromID: runs.FirstID(late), FromAt: late,
			WindowsMs: []int64{3600e3}, MaxRows: 100_000,
		}),
		"Overview": OverviewStatement(dbsqlc.TenantRunsParams{TenantID: own, FromID: runs.FirstID(late), FromAt: late, MaxRows: 1000}),
	} {
		b.ReadsAPage(t, name, s, "endpoints", "schedules", "run")
	}
}
