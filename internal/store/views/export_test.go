package views

import (
	"context"
	"time"

	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// IncidentsStatement returns the statement of the incidents of the last day.
func IncidentsStatement(tenant [16]byte, now time.Time) pg.Statement {
	return func(q dbsqlc.DBTX) error {
		_, err := dbsqlc.New().ConsoleIncidents(context.Background(), q, incidentParams(tenant, now.Add(-consoleProofTime)))
		return err
	}
}
