package web

import (
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"
	"time"

	"rubato/client"
	"rubato/internal/auth"
	"rubato/internal/endpoints"
)

const (
	sessionsPerPage = "30"
	shownSessions   = "5" // on the page of an endpoint
)

// plannerView is the view model of the page of the planner.
type plannerView struct {
	budget      client.PlannerBudget
	suggestions []client.PlannerSuggestion // those that wait
	sessions    []client.PlannerSession
	names       map[string]string // of endpoints by their ids
	next        string
	cursor      string
	now         time.Time
	write       bool
}

func (v *pageRequest) planner() error {
	view := plannerView{
		now:    time.Now(),
		cursor: v.value("cursor"),
		write:  v.who.May(auth.Write),
	}
	if err := v.get("/v1/planner/budget", nil, &view.budget); err != nil {
		return err
	}
	var suggestions client.PlannerSuggestionList
	if err := v.get("/v1/planner/suggestions", url.Values{"state": {"pending"}, "limit": {"500"}}, &suggestions); err != nil {
		return err
	}
	query := url.Values{"limit": {sessionsPerPage}}
	if view.cursor != "" {
		query.Set("cursor", view.cursor)
	}
	var sessions client.PlannerSessionList
	if err := v.get("/v1/planner/sessions", query, &sessions); err != nil {
		return err
	}
	view.suggestions, view.sessions, view.next = suggestions.Items, sessions.Items, text(sessions.NextCursor)
	ids := make([]string, 0, len(view.suggestions)+len(view.sessions)+len(view.budget.Endpoints))
	for _, s := range view.suggestions {
		ids = append(ids, s.EndpointID)
	}
	for _, s := range view.sessions {
		ids = append(ids, s.EndpointID)
	}
	for _, e := range view.budget.Endpoints {
		ids = append(ids, e.EndpointID)
	}
	var err error
	if view.names, err = v.names(ids); err != nil {
		return err
	}
	return v.show(page{
		title: "Planner",
		nav:   "planner",
		chart: true,
	}, plannerPage(view))
}

// names returns the names of endpoints by their ids.
func (v *pageRequest) names(ids []string) (map[string]string, error) {
	seen := map[string]bool{}
	parsed := make([][16]byte, 0, len(ids))
	for _, text := range ids {
		if seen[text] {
			continue
		}
		seen[text] = true
		if isCall(text) {
			continue
		}
		id, err := endpoints.ParseID(text)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, id)
	}
	found, err := v.figures.Names(v.r.Context(), v.who.TenantID, parsed)
	if err != nil {
		return nil, err
	}
	names := make(map[string]string, len(found))
	for id, name := range found {
		names[endpoints.ID(id).String()] = name
	}
	for id := range seen {
		if isCall(id) {
			names[id] = id
		}
	}
	return names, nil
}

// isCall reports whether an ID is that of a call, which has no page of its own.
func isCall(id string) bool { return strings.HasPrefix(id, "call_") }

func (v *pageRequest) session() error {
	var s client.PlannerSession
	if err := v.get("/v1/planner/sessions/"+url.PathEscape(v.r.PathValue("id")), nil, &s); err != nil {
		return err
	}
	var e client.Endpoint
	if err := v.get(endpointAPI(s.EndpointID, ""), nil, &e); err != nil {
		return err
	}
	return v.show(page{title: "Analysis of " + shorten(e.Name, 50), nav: "planner"}, sessionPage(s, e, v.who.May(auth.Write), time.Now()))
}

// undoing is the view model of the confirmation of an undo.
type undoing struct {
	session  string
	endpoint client.Endpoint
	removes  []string // the planner's active changes
	once     string   // names the form, so that a second click does nothing
}

// confirmUndo sends the dialog that lists the changes that an undo removes.
func (v *pageRequest) confirmUndo() error {
	if !v.who.May(auth.Write) {
		return forbidden()
	}
	u := undoing{session: v.r.PathValue("id"), once: rand.Text()}
	var s client.PlannerSession
	if err := v.get("/v1/planner/sessions/"+url.PathEscape(u.session), nil, &s); err != nil {
		return err
	}
	if err := v.get(endpointAPI(s.EndpointID, ""), nil, &u.endpoint); err != nil {
		return err
	}
	u.removes = plannersWork(u.endpoint)
	return v.dialog("Undo the analysis", "planner", undoDialog(u))
}

// undo removes the changes of an analysis, and shows the removed ones.
func (v *pageRequest) undo() error {
	var e client.Endpoint
	if err := v.post("/v1/planner/sessions/"+url.PathEscape(v.r.PathValue("id"))+"/undo", v.value("once"), nil, &e); err != nil {
		return v.html(int(problemOf(err).Status), problemNotice(problemOf(err)))
	}
	return v.dialog("The analysis is undone", "planner", undoneDialog(e))
}

// review is the view model of the dialog of a suggestion.
type review struct {
	suggestion client.PlannerSuggestion
	approve    bool
	view       actionView
}

// reviewed finds the suggestion that a request names among those that wait.
func (v *pageRequest) reviewed() (review, error) {
	r := review{approve: v.r.PathValue("verdict") == "approve"}
	if !r.approve && v.r.PathValue("verdict") != "reject" {
		return r, notFound("a suggestion can be approved or rejected")
	}
	if !v.who.May(auth.Write) {
		return r, forbidden()
	}
	var waiting client.PlannerSuggestionList
	if err := v.get("/v1/planner/suggestions", url.Values{"state": {"pending"}, "limit": {"500"}}, &waiting); err != nil {
		return r, err
	}
	for _, s := range waiting.Items {
		if s.ID == v.r.PathValue("id") {
			r.suggestion = s
			r.view = actionView{once: rand.Text(), now: time.Now().UTC()}
			return r, v.get(endpointAPI(s.EndpointID, ""), nil, &r.view.endpoint)
		}
	}
	return r, notFound("this suggestion is no longer open; reload the page")
}

// confirmReview sends the dialog with the forecast of a suggestion.
func (v *pageRequest) confirmReview() error {
	r, err := v.reviewed()
	if err != nil {
		return err
	}
	if r.approve {
		r.view.then = new(client.Decision)
		if err := v.previewSuggested(r, r.view.then); err != nil {
			return err
		}
	}
	return v.dialog("Suggestion", "planner", reviewDialog(r))
}

// suggestedTempo is the data of the tempo chart with the forecast of a suggestion.
func (v *pageRequest) suggestedTempo() error {
	r, err := v.reviewed()
	if err != nil {
		return err
	}
	chart, err := v.tempo(r.suggestion.EndpointID)
	if err != nil {
		return err
	}
	var then client.Decision
	if err := v.previewSuggested(r, &then); err != nil {
		return err
	}
	chart.Then = forecast(chart, r.suggestion, then)
	return v.json(chart)
}

// forecast returns the forecast part of the chart: the interval for as long as it was suggested,
// inside the clamps, and the baseline after it; where there is none, the wait for the next run; and
// the pause.
func forecast(c tempoChart, s client.PlannerSuggestion, then client.Decision) *forecastChart {
	o := &forecastChart{Times: []float64{}, Interval: []*float64{}}
	add := func(at float64, interval *float64) {
		o.Times, o.Interval = append(o.Times, at), append(o.Interval, interval)
	}
	if p := s.Pause; p != nil {
		o.Paused = &[2]float64{c.Now, c.Now + float64(p.SpanMs)/1000}
		add(c.Now, nil)
		add(o.Paused[1], nil)
		return o
	}
	if p := s.Interval; p != nil && p.TTLMs != nil {
		value := new(clamped(float64(p.SpanMs)/1000, c.Min, c.Max))
		end := c.Now + float64(*p.TTLMs)/1000
		add(c.Now, value)
		add(end, value)
		add(end+0.001, c.Baseline)
		return o
	}
	if then.NextRunAt != nil && !far(*then.NextRunAt) {
		next := max(c.Now+0.001, unix(*then.NextRunAt))
		wait := new(next - c.Now)
		add(c.Now, wait)
		add(next, wait)
	}
	return o
}

func clamped(value float64, low, high *float64) float64 {
	if low != nil {
		value = max(value, *low)
	}
	if high != nil {
		value = min(value, *high)
	}
	return value
}

// previewSuggested asks the governor for its decision with a suggestion in force.
func (v *pageRequest) previewSuggested(r review, then *client.Decision) error {
	facts, err := v.facts(r.view.endpoint)
	if err != nil {
		return err
	}
	suggest(facts, r.suggestion, r.view)
	return v.post("/v1/explain", "", facts, then)
}

// suggest applies a suggestion to the governor's input.
func suggest(facts map[string]any, s client.PlannerSuggestion, p actionView) {
	hints, _ := facts["hints"].(map[string]any)
	if hints == nil || s.ClearHints {
		hints = map[string]any{}
	}
	until := func(ms *int64) time.Time {
		if ms == nil {
			return p.now
		}
		return p.now.Add(time.Duration(*ms) * time.Millisecond)
	}
	if c := s.Interval; c != nil {
		hints["interval"] = map[string]any{"intervalMs": c.SpanMs, "expiresAt": until(c.TTLMs), "reason": shorten(c.Reason, 500)}
	}
	if c := s.OneShot; c != nil {
		hints["oneShot"] = map[string]any{"at": until(&c.SpanMs), "expiresAt": until(c.TTLMs), "reason": shorten(c.Reason, 500)}
	}
	if c := s.Pause; c != nil {
		facts["pausedUntil"] = until(&c.SpanMs)
	}
	facts["hints"] = hints
}

// decide approves or rejects a suggestion.
func (v *pageRequest) decide() error {
	verdict := v.r.PathValue("verdict")
	if verdict != "approve" && verdict != "reject" {
		return notFound("a suggestion can be approved or rejected")
	}
	if err := v.post("/v1/planner/suggestions/"+url.PathEscape(v.r.PathValue("id"))+"/"+verdict, v.value("once"), nil, nil); err != nil {
		return v.html(int(problemOf(err).Status), problemNotice(problemOf(err)))
	}
	return v.seeOther("/console/planner")
}

// cost formats the token usage and cost of an analysis.
func cost(u client.PlannerUsage) string {
	if u.PromptTokens+u.CompletionTokens == 0 {
		return "no model call"
	}
	words := count(u.PromptTokens+u.CompletionTokens) + " tokens"
	if u.CostMicros > 0 {
		words += fmt.Sprintf(", $%.4f", float64(u.CostMicros)/1e6)
	}
	return words
}

func outcomeTone(o client.PlannerOutcome) string {
	switch o {
	case client.PlannerOutcomeActed:
		return "live"
	case client.PlannerOutcomeSuggested, client.PlannerOutcomeOverBudget:
		return "held"
	case client.PlannerOutcomeFailed, client.PlannerOutcomeUnavailable:
		return "bad"
	case client.PlannerOutcomeObserved, client.PlannerOutcomeStale, client.PlannerOutcomeUnchanged:
	}
	return "quiet"
}
