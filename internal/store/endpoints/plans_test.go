package endpoints_test

import (
	"encoding/json"
	"testing"

	"rubato/internal/store/dbsqlc"
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/storetest"
)

// TestListsOfEndpointsReadNoMoreThanTheyReturn holds every filter of a list of endpoints to an
// index.
func TestListsOfEndpointsReadNoMoreThanTheyReturn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Crowd(t)
	own, half := storetest.Tenant.TenantID, [16]byte{0x80}
	list := func(edit func(*dbsqlc.EndpointListParams)) storetest.Statement {
		p := dbsqlc.EndpointListParams{TenantID: own, MaxRows: 51}
		edit(&p)
		return storetest.StatementOf(endpointstore.ListStatement(p))
	}
	for name, s := range map[string]storetest.Statement{
		"Endpoints":         list(func(*dbsqlc.EndpointListParams) {}),
		"EndpointsPage":     list(func(p *dbsqlc.EndpointListParams) { p.Before = &half }),
		"EndpointsKey":      list(func(p *dbsqlc.EndpointListParams) { p.Key = new("key-77") }),
		"EndpointsName":     list(func(p *dbsqlc.EndpointListParams) { p.Name = new("name-77") }),
		"EndpointsPrefix":   list(func(p *dbsqlc.EndpointListParams) { p.NameLike = new("name-777%") }),
		"EndpointsHost":     list(func(p *dbsqlc.EndpointListParams) { p.Host = new("host-77.example:80") }),
		"EndpointsLabel":    list(func(p *dbsqlc.EndpointListParams) { p.Labels = json.RawMessage(`{"n":"77"}`) }),
		"EndpointsTeam":     list(func(p *dbsqlc.EndpointListParams) { p.Labels = json.RawMessage(`{"team":"t77"}`) }),
		"EndpointsActive":   list(func(p *dbsqlc.EndpointListParams) { p.State = "active" }),
		"EndpointsArchived": list(func(p *dbsqlc.EndpointListParams) { p.State = "archived" }),
		"EndpointsPaused":   list(func(p *dbsqlc.EndpointListParams) { p.State = "paused" }),
	} {
		b.ReadsAPage(t, name, s, "endpoints", "schedules", "run")
	}
}
