package views

import (
	"context"
	"time"

	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// IncidentsStatement returns what the incidents of the last day ask the database.
func IncidentsStatement(tenant [16]byte, now time.Time) pg.Statement {
	return func(q dbsqlc.DBTX) error {
		_, err := dbsqlc.New().ConsoleIncidents(context.Background(), q, incidentParams(tenant, now.Add(-consoleProofTime)))
		return err
	}
}
