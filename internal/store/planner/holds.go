package planner

import (
	"context"
	"fmt"

	"rubato/internal/endpoints"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// holds returns the holds of the planner by persons at an endpoint.
func holds(ctx context.Context, q dbsqlc.DBTX, db *pg.DB, id endpoints.ID) ([]endpoints.Hold, error) {
	rows, err := db.Q.PlannerHoldList(ctx, q, id)
	if err != nil {
		return nil, fmt.Errorf("reading what the planner may not do to endpoint %s: %w", id, err)
	}
	list := make([]endpoints.Hold, len(rows))
	for i, row := range rows {
		list[i] = endpoints.Hold{
			Kind:  row.Kind,
			Until: row.Until,
			By:    row.HeldBy,
		}
	}
	return list, nil
}
