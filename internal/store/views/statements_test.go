package views_test

import (
	"context"

	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/storetest"
)

// RunsStatement returns the statement of a list of runs.
func RunsStatement(p dbsqlc.RunListParams) storetest.Statement {
	return storetest.StatementOf(func(q dbsqlc.DBTX) error { _, err := dbsqlc.New().RunList(context.Background(), q, p); return err })
}

// HealthStatement returns the statement of an endpoint's health.
func HealthStatement(p dbsqlc.EndpointHealthParams) storetest.Statement {
	return storetest.StatementOf(func(q dbsqlc.DBTX) error {
		_, err := dbsqlc.New().EndpointHealth(context.Background(), q, p)
		return err
	})
}

// OverviewStatement returns the statement of an overview about the newest runs.
func OverviewStatement(p dbsqlc.TenantRunsParams) storetest.Statement {
	return storetest.StatementOf(func(q dbsqlc.DBTX) error { _, err := dbsqlc.New().TenantRuns(context.Background(), q, p); return err })
}

// SparksStatement returns the statement of the sparklines in a list of endpoints.
func SparksStatement(p dbsqlc.ConsoleSparklinesParams) storetest.Statement {
	return storetest.StatementOf(func(q dbsqlc.DBTX) error {
		_, err := dbsqlc.New().ConsoleSparklines(context.Background(), q, p)
		return err
	})
}

// FinishedRunsStatement returns the first statement of a look at the feed.
func FinishedRunsStatement(p dbsqlc.FinishedRunsListParams) storetest.Statement {
	return storetest.StatementOf(func(q dbsqlc.DBTX) error {
		_, err := dbsqlc.New().FinishedRunsList(context.Background(), q, p)
		return err
	})
}

// FindStatement returns the statement that reads the runs found by a look at the feed.
func FindStatement(p dbsqlc.RunFindParams) storetest.Statement {
	return storetest.StatementOf(func(q dbsqlc.DBTX) error { _, err := dbsqlc.New().RunFind(context.Background(), q, p); return err })
}

// AuditStatement returns the statement of a list of changes.
func AuditStatement(p dbsqlc.AuditListParams) storetest.Statement {
	return storetest.StatementOf(func(q dbsqlc.DBTX) error { _, err := dbsqlc.New().AuditList(context.Background(), q, p); return err })
}

// NoticesStatement returns the statement of a list of notices.
func NoticesStatement(p dbsqlc.NoticeListParams) storetest.Statement {
	return storetest.StatementOf(func(q dbsqlc.DBTX) error { _, err := dbsqlc.New().NoticeList(context.Background(), q, p); return err })
}
