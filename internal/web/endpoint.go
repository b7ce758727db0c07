package web

import (
	"net/url"
	"reflect"
	"time"

	"github.com/a-h/templ"

	"rubato/client"
	"rubato/internal/auth"
	"rubato/internal/endpoints"
	"rubato/internal/stats"
)

const (
	shownRuns    = 40
	shownDue     = 10
	historyTime  = 24 * time.Hour
	shownChanges = 12
)

// endpointView is everything that the page of an endpoint shows.
type endpointView struct {
	endpoint client.Endpoint
	decision client.Explanation
	due      []client.PlannedTime
	runs     []client.Run // newest first
	health   []client.HealthWindow
	history  stats.History
	sessions []client.PlannerSession
	pace     client.EndpointTempo
	noise    client.NoiseList
	now      time.Time
	write    bool
}

// endpointAPI returns the API path of an endpoint or of a resource below it.
func endpointAPI(id, below string) string { return "/v1/endpoints/" + url.PathEscape(id) + below }

func (v *pageRequest) endpoint() error {
	d, err := v.loadEndpoint(v.r.PathValue("id"))
	if err != nil {
		return err
	}
	if err := v.get(endpointAPI(d.endpoint.ID, "/tempo"), nil, &d.pace); err != nil {
		return err
	}
	return v.show(page{
		title: shorten(d.endpoint.Name, 60),
		nav:   "endpoints",
		chart: true,
	}, endpointPage(d))
}

func (v *pageRequest) loadEndpoint(id string) (endpointView, error) {
	d := endpointView{write: v.who.May(auth.Write)}
	if err := v.get(endpointAPI(id, ""), nil, &d.endpoint); err != nil {
		return d, err
	}
	return d, v.complete(&d)
}

// complete reads the data that the page shows in addition to the endpoint.
func (v *pageRequest) complete(d *endpointView) error {
	id := d.endpoint.ID
	var due client.Preview
	var runs client.RunList
	if d.endpoint.State != client.EndpointStateArchived {
		if err := v.get(endpointAPI(id, "/explain"), nil, &d.decision); err != nil {
			return err
		}
		if err := v.get(endpointAPI(id, "/preview"), url.Values{"n": {"10"}}, &due); err != nil {
			return err
		}
	}
	if err := v.get(endpointAPI(id, "/runs"), url.Values{"limit": {"40"}}, &runs); err != nil {
		return err
	}
	if err := v.get(endpointAPI(id, "/noise"), nil, &d.noise); err != nil {
		return err
	}
	var health client.EndpointHealth
	if err := v.get(endpointAPI(id, "/health"), nil, &health); err != nil {
		return err
	}
	var sessions client.PlannerSessionList
	if err := v.get("/v1/planner/sessions", url.Values{"endpointId": {id}, "limit": {shownSessions}}, &sessions); err != nil {
		return err
	}
	d.sessions = sessions.Items
	d.due, d.runs, d.health = due.Items, runs.Items, health.Items
	parsed, err := endpoints.ParseID(id)
	if err != nil {
		return err
	}
	d.history, err = v.figures.History(v.r.Context(), v.who.TenantID, parsed, historyTime)
	d.now = d.history.At
	return err
}

// endpointLive streams the page's parts after each change of the endpoint. Detecting a change costs
// one lookup.
func (v *pageRequest) endpointLive() error {
	var shown endpointView
	return v.live(func() (templ.Component, error) {
		var e client.Endpoint
		if err := v.get(endpointAPI(v.r.PathValue("id"), ""), nil, &e); err != nil {
			return nil, err
		}
		if shown.endpoint.ID != "" && reflect.DeepEqual(e, shown.endpoint) {
			return endpointParts(shown), nil
		}
		next := endpointView{endpoint: e, write: v.who.May(auth.Write)}
		if err := v.complete(&next); err != nil {
			return nil, err
		}
		shown = next
		return endpointParts(shown), nil
	})
}

// moment is a run on the timeline, in the units of its picture.
type moment struct {
	planned, start, width float64
	tone, title, path     string
	asked                 bool
}

const (
	timelineWidth = 1000
	timelineRuns  = 30
)

// timeline returns the newest runs between the first of their due times and now.
func timeline(d endpointView) (moments []moment, from time.Time) {
	runs := d.runs[:min(len(d.runs), timelineRuns)]
	if len(runs) == 0 {
		return nil, d.now
	}
	from = runs[len(runs)-1].ScheduledFor
	span := max(d.now.Sub(from), time.Second)
	at := func(t time.Time) float64 {
		return min(timelineWidth, max(0, t.Sub(from).Seconds()/span.Seconds()*timelineWidth))
	}
	for _, r := range runs {
		if r.StartedAt == nil {
			continue
		}
		end := d.now
		if r.FinishedAt != nil {
			end = *r.FinishedAt
		}
		moments = append(moments, moment{
			planned: at(r.ScheduledFor),
			start:   at(*r.StartedAt),
			width:   max(3, at(end)-at(*r.StartedAt)),
			tone:    tone(string(r.Status)),
			title:   runTitle(r),
			path:    "/console/runs/" + r.ID,
			asked:   r.Source == client.SourceManual,
		})
	}
	return moments, from
}

func runTitle(r client.Run) string {
	title := statusWords(string(r.Status)) + ", due " + stamp(r.ScheduledFor)
	if r.StartLagMs != nil {
		title += ", started " + fms(*r.StartLagMs) + " later"
	}
	if r.DurationMs != nil {
		title += ", took " + fms(*r.DurationMs)
	}
	return title
}
