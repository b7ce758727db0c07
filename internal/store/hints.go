package store

import (
	"rubato/internal/endpoints"
	"rubato/internal/store/dbsqlc"
)

func holdRow(id endpoints.ID, h endpoints.Hold) dbsqlc.PlannerHoldSetParams {
	return dbsqlc.PlannerHoldSetParams{EndpointID: id, Kinds: []string{h.Kind}, Until: h.Until, HeldBy: storable(h.By)}
}
