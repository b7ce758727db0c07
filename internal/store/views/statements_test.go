package views_test

import (
	"context"

	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/storetest"
)

// RunsStatement returns what a list of runs asks the database.
func RunsStatement(p dbsqlc.RunListParams) storetest.Statement {
	return storetest.StatementOf(func(q dbsqlc.DBTX) error { _, err := dbsqlc.New().RunList(context.Background(), q, p); return err })
}

// HealthStatement returns what the health of an endpoint asks the database.
func HealthStatement(p dbsqlc.EndpointHealthParams) storetest.Statement {
	return storetest.StatementOf(func(q dbsqlc.DBTX) error {
		_, err := dbsqlc.New().EndpointHealth(context.Background(), q, p)
		return err
	})
}

// OverviewStatement returns what an overview asks the database of the newest runs.
func OverviewStatement(p dbsqlc.TenantRunsParams) storetest.Statement {
	return storetest.StatementOf(func(q dbsqlc.DBTX) error { _, err := dbsqlc.New().TenantRuns(context.Background(), q, p); return err })
}

// SparksStatement returns what the pictures in a list of endpoints ask the database.
func SparksStatement(p dbsqlc.ConsoleSparklinesParams) storetest.Statement {
	return storetest.StatementOf(func(q dbsqlc.DBTX) error {
		_, err := dbsqlc.New().ConsoleSparklines(context.Background(), q, p)
		return err
	})
}

// FinishedRunsStatement returns what a look at the feed asks the database first.
func FinishedRunsStatement(p dbsqlc.FinishedRunsListParams) storetest.Statement {
	return storetest.StatementOf(func(q dbsqlc.DBTX) error {
		_, err := dbsqlc.New().FinishedRunsList(context.Background(), q, p)
		return err
	})
}

// FindStatement returns what a look at the feed asks the database about the runs that it found.
func FindStatement(p dbsqlc.RunFindParams) storetest.Statement {
	return storetest.StatementOf(func(q dbsqlc.DBTX) error { _, err := dbsqlc.New().RunFind(context.Background(), q, p); return err })
}

// AuditStatement returns what a list of changes asks the database.
func AuditStatement(p dbsqlc.AuditListParams) storetest.Statement {
	return storetest.StatementOf(func(q dbsqlc.DBTX) error { _, err := dbsqlc.New().AuditList(context.Background(), q, p); return err })
}

// NoticesStatement returns what a list of notices asks the database.
func NoticesStatement(p dbsqlc.NoticeListParams) storetest.Statement {
	return storetest.StatementOf(func(q dbsqlc.DBTX) error { _, err := dbsqlc.New().NoticeList(context.Background(), q, p); return err })
}
