package endpoints

import (
	"rubato/internal/endpoints"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// HoldRow returns the row of a hold, which stops the planner from changing a field.
func HoldRow(id endpoints.ID, h endpoints.Hold) dbsqlc.PlannerHoldSetParams {
	return dbsqlc.PlannerHoldSetParams{
		EndpointID: id,
		Kinds:      []string{h.Kind},
		Until:      h.Until,
		HeldBy:     pg.Storable(h.By),
	}
}
