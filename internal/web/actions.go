package web

import (
	"crypto/rand"
	"net/http"
	"time"

	"rubato/client"
	"rubato/internal/auth"
)

// action is something that may be done to an endpoint.
type action struct {
	title string
	verb  string // of the button that does it
	does  string // description of its effect
	done  string
	form  string // the fields that it asks for: pause, hint or once; empty: none
	// change applies the action to the governor's input; nil: there is no next decision to show.
	change func(v *pageRequest, facts map[string]any, now time.Time) error
	send   func(v *pageRequest, p *actionView) error
	// tests sends the request once, in place of send, which changes nothing.
	tests bool
	// forces offers to send the request even if the circuit breaker of the host is open.
	forces bool
}

// actions returns the actions by their names in paths.
func actions() map[string]action {
	return map[string]action{
		"run": {
			title: "Run now", verb: "Run now", done: "A run is queued.",
			does:   "Queues a one-off run immediately, regardless of hints, clamps and pause. It waits while the endpoint has a run in progress or other one-off runs are ahead in the queue. The schedule does not change.",
			forces: true, send: (*pageRequest).sendRun,
		},
		"pause": {
			title: "Pause", verb: "Pause", done: "Endpoint paused.", form: "pause", change: pausedFacts, send: (*pageRequest).sendPause,
			does: "No run starts during the pause. A run in progress continues. Due times during the pause are recorded as skipped.",
		},
		"resume": {
			title: "Resume", verb: "Resume", done: "Endpoint resumed.", does: "Ends the pause immediately and continues the schedule.",
			change: func(_ *pageRequest, facts map[string]any, _ time.Time) error {
				delete(facts, "pausedUntil")
				return nil
			},
			send: func(v *pageRequest, p *actionView) error { return v.post(p.api("/resume"), v.value("once"), nil, nil) },
		},
		"hint": {
			title: "Set an interval hint", verb: "Set the hint", done: "Hint set.", form: "hint", change: hintedFacts, send: (*pageRequest).sendHint,
			does: "The interval replaces the baseline and its backoff until the hint expires. Clamps still hold. An existing interval hint is replaced.",
		},
		"once": {
			title: "Set a one-shot hint", verb: "Set the hint", done: "Hint set.", form: "once", change: onceFacts, send: (*pageRequest).sendOnce,
			does: "A one-shot hint can advance a run, never delay one. An existing one-shot hint is replaced.",
		},
		"clear": {
			title: "Clear hints", verb: "Clear hints", done: "Hints cleared.", send: (*pageRequest).sendClear,
			does:   "Removes both hints, regardless of their author. The baseline is in force again. The planner does not write the same kinds of hints again for four hours.",
			change: func(_ *pageRequest, facts map[string]any, _ time.Time) error { delete(facts, "hints"); return nil },
		},
		"reset": {
			title: "Reset failures", verb: "Reset failures", done: "Failures reset.", does: "Sets the failure count to 0. Ends the backoff and a Retry-After of the target.",
			change: func(_ *pageRequest, facts map[string]any, _ time.Time) error {
				facts["failureCount"] = 0
				delete(facts, "retryAfter")
				return nil
			},
			send: func(v *pageRequest, p *actionView) error {
				return v.post(p.api("/reset-failures"), v.value("once"), nil, nil)
			},
		},
		"test": {
			title: "Test", verb: "Send test request", done: "Test request sent.", tests: true,
			does: "Sends the endpoint's request once, now, also if it is paused. No run is recorded and the endpoint does not change.",
		},
		"archive": {
			title: "Archive", verb: "Archive permanently", done: "Endpoint archived.",
			does: "The endpoint never runs again. This cannot be undone. Its history is kept. A run in progress continues.",
			send: func(v *pageRequest, p *actionView) error {
				return v.call(apiRequest{method: http.MethodDelete, path: p.api("")}, nil)
			},
		},
	}
}

// actionView is the view model of an action's dialog.
type actionView struct {
	action

	name     string
	endpoint client.Endpoint
	once     string // names the form, so that a second click does nothing
	now      time.Time
	until    string           // the default of a pause's end
	then     *client.Decision // the next decision; nil: nothing to show
	note     string           // in place of it
	removes  []string         // hints and pauses that the action removes, or has removed
}

// api returns the address of something of the endpoint.
func (p *actionView) api(below string) string { return endpointAPI(p.endpoint.ID, below) }

// readAction reads the action and the endpoint that a request names.
func (v *pageRequest) readAction() (actionView, error) {
	a, known := actions()[v.r.PathValue("action")]
	if !known {
		return actionView{}, notFound("there is no such action")
	}
	if !v.who.May(auth.Write) {
		return actionView{}, forbidden()
	}
	p := actionView{
		action: a,
		name:   v.r.PathValue("action"),
		once:   rand.Text(),
		now:    time.Now().UTC(),
	}
	p.until = p.now.Add(time.Hour).Truncate(time.Minute).Format(fieldTime)
	if err := v.get(endpointAPI(v.r.PathValue("id"), ""), nil, &p.endpoint); err != nil {
		return p, err
	}
	if p.name == "clear" {
		p.removes = hintsInForce(p.endpoint)
	}
	return p, nil
}

// confirm sends the dialog that describes the effect of an action, and asks for confirmation.
func (v *pageRequest) confirm() error {
	p, err := v.readAction()
	if err != nil {
		return err
	}
	if p.form == "" { // With fields, the effect depends on their values.
		if err := v.preview(&p); err != nil {
			return err
		}
	}
	return v.dialog(p.title+": "+shorten(p.endpoint.Name, 50), "endpoints", actionDialog(p))
}

// effect sends the effect of an action with the current field values.
func (v *pageRequest) effect() error {
	p, err := v.readAction()
	if err != nil {
		return err
	}
	if err := v.preview(&p); err != nil {
		return v.part(problemNotice(problemOf(err)))
	}
	return v.part(effectPart(p))
}

// preview asks the governor for its decision after the action.
func (v *pageRequest) preview(p *actionView) error {
	if p.change == nil {
		return nil
	}
	facts, err := v.facts(p.endpoint)
	if err != nil {
		return err
	}
	if err := p.change(v, facts, p.now); err != nil {
		return err
	}
	if facts["pausedUntil"] == forEver || p.endpoint.PausedIndefinitely && p.name != "resume" {
		p.note = "It will not run until it is resumed."
		return nil
	}
	p.then = new(client.Decision)
	return v.post("/v1/explain", "", facts, p.then)
}

// act executes the confirmed action, and shows the next decision.
func (v *pageRequest) act() error {
	p, err := v.readAction()
	if err != nil {
		return err
	}
	if p.tests {
		return v.test(p)
	}
	if err := p.send(v, &p); err != nil {
		return v.html(int(problemOf(err).Status), problemNotice(problemOf(err)))
	}
	if !v.fragment() {
		return v.seeOther("/console/endpoints/" + p.endpoint.ID)
	}
	d, err := v.loadEndpoint(p.endpoint.ID)
	if err != nil {
		return err
	}
	if d.endpoint.State != client.EndpointStateArchived {
		p.then = &client.Decision{
			NextRunAt: d.decision.NextRunAt,
			Source:    d.decision.Source,
			Steps:     d.decision.Steps,
		}
	}
	return v.part(doneDialog(p, d))
}

// test sends the request of an endpoint once, and shows the outcome.
func (v *pageRequest) test(p actionView) error {
	v.sendsOnce()
	var result client.TestResult
	if err := v.post(endpointAPI(p.endpoint.ID, "/test"), "", nil, &result); err != nil {
		return v.html(int(problemOf(err).Status), problemNotice(problemOf(err)))
	}
	body := testedDialog(p, result)
	if !v.fragment() {
		return v.show(page{title: "Test of " + shorten(p.endpoint.Name, 50), nav: "endpoints"}, body)
	}
	return v.part(body)
}

// onceLife is how long a one-shot hint from here holds after its instant: long enough for a worker
// that is late.
const onceLife = 10 * time.Minute

func (v *pageRequest) sendRun(p *actionView) error {
	body := client.OneOffRun{}
	if v.value("force") != "" {
		body.Force = new(true)
	}
	return v.post(p.api("/run"), v.value("once"), body, nil)
}

func (v *pageRequest) sendPause(p *actionView) error {
	until, err := v.instant("until")
	if err != nil {
		return err
	}
	return v.post(p.api("/pause"), v.value("once"), client.PauseRequest{Until: until, Reason: given(v.value("reason"))}, nil)
}

func (v *pageRequest) sendHint(p *actionView) error {
	interval, err := v.length("interval")
	if err != nil {
		return err
	}
	ttl, err := v.length("ttl")
	if err != nil {
		return err
	}
	return v.call(apiRequest{
		method: http.MethodPut,
		path:   p.api("/hints/interval"),
		body: client.IntervalHintRequest{
			IntervalMs: interval,
			TTLMs:      &ttl,
			Reason:     given(v.value("reason")),
		},
	}, nil)
}

func (v *pageRequest) sendOnce(p *actionView) error {
	in, err := v.length("in")
	if err != nil {
		return err
	}
	return v.call(apiRequest{
		method: http.MethodPut,
		path:   p.api("/hints/one-shot"),
		body: client.OneShotHintRequest{
			InMs:   &in,
			TTLMs:  new(in + onceLife.Milliseconds()),
			Reason: given(v.value("reason")),
		},
	}, nil)
}

// sendClear removes the hints, and keeps the API's list of removed hints.
func (v *pageRequest) sendClear(p *actionView) error {
	var e client.Endpoint
	err := v.call(apiRequest{method: http.MethodDelete, path: p.api("/hints")}, &e)
	p.removes = removedWords(e)
	return err
}

// fieldTime is how fields of forms write instants, which are UTC.
const fieldTime = "2006-01-02T15:04"

// instant reads a field that may hold an instant.
func (v *pageRequest) instant(name string) (*time.Time, error) {
	value := v.value(name)
	if value == "" {
		return nil, nil //nolint:nilnil // An empty field is no error.
	}
	for _, layout := range []string{fieldTime, "2006-01-02T15:04:05", time.RFC3339} {
		if t, err := time.ParseInLocation(layout, value, time.UTC); err == nil {
			return &t, nil
		}
	}
	return nil, badField(name, "must be a date and a time (UTC), such as 2026-12-24T18:00")
}

func badField(field, message string) error {
	return &client.Problem{
		Status: http.StatusUnprocessableEntity,
		Title:  "Unprocessable Entity",
		Code:   "invalid_fields",
		Detail: "the input breaks rules; see errors",
		Errors: new([]client.FieldError{{Field: field, Code: "invalid_value", Message: message}}),
	}
}

// given returns a text that may be left out.
func given(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
