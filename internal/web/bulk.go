package web

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"rubato/client"
)

// maxBulk is how many endpoints one bulk action takes: a page of them.
const maxBulk = endpointsPerPage

// bulkPlan is what a dialog shows of an action before it is done to many endpoints.
type bulkPlan struct {
	action  string // pause or resume
	hit     []client.Endpoint
	left    []string // what is left alone, and why
	running int      // of hit, in progress
}

// bulkDone is an endpoint that a bulk action has changed, and the pause that the undo looks for or restores.
type bulkDone struct {
	id, name string
	until    string // the end of the pause by RFC 3339; empty: it has none
	reason   string
}

// bulkResult is what a bulk action did.
type bulkResult struct {
	action  string
	undone  bool // it took another action back, so it offers no undo
	done    []bulkDone
	left    []string // what was left alone, and why
	refused []string
}

// paused is the state of a pause that a bulk action sets.
type paused struct {
	until  *time.Time // nil: until it is resumed
	reason string
}

// ticked returns the endpoints and the action that a form names.
func (v *visit) ticked() (ids []string, action string, err error) {
	ids, action = v.r.Form["id"], v.value("action")
	switch {
	case action != "pause" && action != "resume":
		return nil, "", notFound("there is no such action")
	case len(ids) == 0:
		return nil, "", &client.Problem{Status: http.StatusUnprocessableEntity, Title: "Nothing is ticked", Detail: "tick the endpoints to " + action}
	case len(ids) > maxBulk:
		return nil, "", &client.Problem{Status: http.StatusUnprocessableEntity, Title: "Too many", Detail: "at most " + strconv.Itoa(maxBulk) + " endpoints at once"}
	}
	return ids, action, nil
}

// leftAlone says why an action passes an endpoint over; empty: it does not. A pause in force stays as it is, because another one would
// move its end.
func leftAlone(e client.Endpoint, action string) string {
	switch {
	case e.State == client.EndpointStateArchived:
		return "it is archived"
	case action == "pause" && e.State == client.EndpointStatePaused:
		return "it is paused already"
	case action == "resume" && e.State == client.EndpointStateActive:
		return "it is not paused"
	}
	return ""
}

// askBulk answers with the dialog that shows what an action would do to the ticked endpoints.
func (v *visit) askBulk() error {
	ids, action, err := v.ticked()
	if err != nil {
		return err
	}
	p := bulkPlan{action: action}
	for _, id := range ids {
		var e client.Endpoint
		if err := v.get(endpointAPI(id, ""), nil, &e); err != nil {
			return err
		}
		if why := leftAlone(e, action); why != "" {
			p.left = append(p.left, e.Name+": "+why)
			continue
		}
		p.hit = append(p.hit, e)
		if e.Running != nil {
			p.running++
		}
	}
	if len(p.hit) == 0 {
		return &client.Problem{Status: http.StatusUnprocessableEntity, Title: "Nothing to " + action, Detail: strings.Join(p.left, "; ")}
	}
	return v.dialog(title(action)+" "+number(len(p.hit), "endpoint", "endpoints"), "endpoints", bulkDialog(p))
}

// bulk does what was confirmed to one endpoint after the other, each as its own request.
func (v *visit) bulk() error {
	ids, action, err := v.ticked()
	if err != nil {
		return err
	}
	pause, err := v.bulkPause(action, time.Now())
	if err != nil {
		return err
	}
	r := bulkResult{action: action}
	return v.each(&r, ids, func(_ int, e client.Endpoint) (string, error) {
		if why := leftAlone(e, action); why != "" {
			return why, nil
		}
		was := bulkDone{id: e.ID, name: e.Name, until: instantField(e.PausedUntil), reason: text(e.PauseReason)}
		if action == "pause" {
			was.until, was.reason = instantField(pause.until), pause.reason
		}
		if err := v.set(e.ID, action, pause); err != nil {
			return "", err
		}
		r.done = append(r.done, was)
		return "", nil
	})
}

// undoBulk takes a bulk action back. An endpoint whose pause was changed since then is left alone.
func (v *visit) undoBulk() error {
	ids, action, err := v.ticked()
	if err != nil {
		return err
	}
	ends, reasons := v.r.Form["until"], v.r.Form["reason"]
	if len(ends) != len(ids) || len(reasons) != len(ids) {
		return notFound("there is no such action")
	}
	back := map[string]string{"pause": "resume", "resume": "pause"}[action]
	r := bulkResult{action: back, undone: true}
	return v.each(&r, ids, func(i int, e client.Endpoint) (string, error) {
		changed := leftAlone(e, back) != "" || back == "resume" && (instantField(e.PausedUntil) != ends[i] || text(e.PauseReason) != reasons[i])
		if changed {
			return "it was changed since then", nil
		}
		pause := paused{reason: reasons[i]}
		if ends[i] != "" {
			until, err := time.Parse(time.RFC3339Nano, ends[i])
			if err != nil || back == "pause" && !until.After(time.Now()) {
				return "its pause would be over", nil //nolint:nilerr // As for one that cannot be read.
			}
			pause.until = &until
		}
		if err := v.set(e.ID, back, pause); err != nil {
			return "", err
		}
		r.done = append(r.done, bulkDone{id: e.ID, name: e.Name})
		return "", nil
	})
}

// each does something to endpoints, one after the other, and answers with the result. An endpoint that is refused keeps no other from
// being changed; an error that every endpoint would meet ends it. If nothing was changed, the answer is the error.
func (v *visit) each(r *bulkResult, ids []string, do func(i int, e client.Endpoint) (left string, err error)) error {
	for i, id := range ids {
		var e client.Endpoint
		err := v.get(endpointAPI(id, ""), nil, &e)
		left := ""
		if err == nil {
			left, err = do(i, e)
		}
		if left != "" {
			r.left = append(r.left, e.Name+": "+left)
		}
		if err == nil {
			continue
		}
		problem := problemOf(err)
		r.refused = append(r.refused, id+": "+problem.Detail)
		everywhere := problem.Status >= http.StatusInternalServerError || problem.Status == http.StatusTooManyRequests
		if everywhere && i+1 < len(ids) {
			r.refused = append(r.refused, number(len(ids)-i-1, "endpoint after it was", "endpoints after it were")+" not tried")
		}
		if len(r.done) == 0 && (everywhere || i+1 == len(ids)) {
			problem.Detail = "nothing was changed: " + strings.Join(append(r.refused, r.left...), "; ")
			return &problem
		}
		if everywhere {
			break
		}
	}
	return v.dialog(r.words(), "endpoints", bulkDoneDialog(*r))
}

// set pauses or resumes an endpoint.
func (v *visit) set(id, action string, p paused) error {
	if action == "resume" {
		return v.post(endpointAPI(id, "/resume"), "", nil, nil)
	}
	return v.post(endpointAPI(id, "/pause"), "", client.PauseRequest{Until: p.until, Reason: given(p.reason)}, nil)
}

// bulkPause reads the fields of a bulk pause, so that all endpoints get the same end.
func (v *visit) bulkPause(action string, now time.Time) (p paused, err error) {
	if action != "pause" {
		return p, nil
	}
	if p.reason = v.value("reason"); p.reason == "" {
		return p, badField("reason", "must say why")
	}
	if p.until, err = v.instant("until"); err != nil {
		return p, err
	}
	switch {
	case v.value("for") != "" && p.until != nil:
		return p, badField("until", "must be empty, because a length is given; keep one of the two")
	case v.value("for") != "":
		length, err := v.length("for")
		if err != nil {
			return p, err
		}
		p.until = new(now.Add(time.Duration(length) * time.Millisecond).UTC().Truncate(time.Second))
	}
	if p.until != nil && !p.until.After(now) {
		return p, badField("until", "must lie in the future")
	}
	return p, nil
}

// words says what a bulk action did.
func (r bulkResult) words() string {
	words := number(len(r.done), "endpoint", "endpoints") + map[string]string{"pause": " paused", "resume": " resumed"}[r.action]
	if r.undone {
		words += ", as before"
	}
	return words
}

// end says when the pause ends that was set; empty: there is none to tell of.
func (r bulkResult) end() string {
	switch {
	case r.action != "pause" || r.undone || len(r.done) == 0:
		return ""
	case r.done[0].until == "":
		return "The pause lasts until somebody resumes."
	default:
		until, _ := time.Parse(time.RFC3339Nano, r.done[0].until) // It was written here.
		return "The pause ends at " + dated(until) + "."
	}
}

// undo says what the undo of the action does.
func (r bulkResult) undo() string {
	what := number(len(r.done), "endpoint", "endpoints")
	if len(r.done) != 1 {
		what = "these " + what
	} else {
		what = "this " + what[2:]
	}
	if r.action == "pause" {
		return "Undo: resume " + what
	}
	return "Undo: pause " + what + " again"
}

// instantField writes an instant that may be absent for a hidden field.
func instantField(t *time.Time) string {
	if t == nil {
		return ""
	}
	return machine(*t)
}

func title(action string) string { return strings.ToUpper(action[:1]) + action[1:] }
