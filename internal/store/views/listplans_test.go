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
