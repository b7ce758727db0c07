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

// bulkView is the view model of the dialog before a bulk action.
type bulkView struct {
	action  string // pause or resume
	hit     []client.Endpoint
	left    []string // unchanged endpoints with the reason
	running int      // of hit, in progress
}

// bulkDone is an endpoint that a bulk action has changed, with the pause that an undo expects or
// restores.
type bulkDone struct {
	id, name string
	until    string // the end of the pause by RFC 3339; empty: it has none
	reason   string
}

// bulkResult is the outcome of a bulk action.
type bulkResult struct {
	action  string
	undone  bool // it took another action back, so it offers no undo
	done    []bulkDone
	left    []string // unchanged endpoints with the reason
	refused []string
}

// paused is the state of a pause that a bulk action sets.
type paused struct {
	until  *time.Time // nil: until it is resumed
	reason string
}

// ticked returns the selected endpoints and the action of a form.
func (v *pageRequest) ticked() (ids []string, action string, err error) {
	ids, action = v.r.Form["id"], v.value("action")
	switch {
	case action != "pause" && action != "resume":
		return nil, "", notFound("there is no such action")
	case len(ids) == 0:
		return nil, "", &client.Problem{
			Status: http.StatusUnprocessableEntity,
			Title:  "No endpoints selected",
			Detail: "select the endpoints to " + action,
		}
	case len(ids) > maxBulk:
		return nil, "", &client.Problem{
			Status: http.StatusUnprocessableEntity,
			Title:  "Too many endpoints",
			Detail: "at most " + strconv.Itoa(maxBulk) + " endpoints at once",
		}
	}
	return ids, action, nil
}

// leftAlone returns the reason to skip an endpoint; empty: the action applies. An active pause
// stays, because another one would move its end.
func leftAlone(e client.Endpoint, action string) string {
	switch {
	case e.State == client.EndpointStateArchived:
		return "archived"
	case action == "pause" && e.State == client.EndpointStatePaused:
		return "already paused"
	case action == "resume" && e.State == client.EndpointStateActive:
		return "not paused"
	}
	return ""
}

// askBulk sends the dialog that shows the effect of an action on the selected endpoints.
func (v *pageRequest) askBulk() error {
	ids, action, err := v.ticked()
	if err != nil {
		return err
	}
	p := bulkView{action: action}
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
		return &client.Problem{
			Status: http.StatusUnprocessableEntity,
			Title:  "Nothing to " + action,
			Detail: strings.Join(p.left, "; "),
		}
	}
	return v.dialog(title(action)+" "+number(len(p.hit), "endpoint", "endpoints"), "endpoints", bulkDialog(p))
}

// bulk applies the confirmed action to the endpoints one by one, each by its own API request.
func (v *pageRequest) bulk() error {
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
		was := bulkDone{
			id:     e.ID,
			name:   e.Name,
			until:  instantField(e.PausedUntil),
			reason: text(e.PauseReason),
		}
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

// undoBulk reverts a bulk action. It skips an endpoint if its pause was changed since then.
func (v *pageRequest) undoBulk() error {
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
			return "changed since then", nil
		}
		pause := paused{reason: reasons[i]}
		if ends[i] != "" {
			until, err := time.Parse(time.RFC3339Nano, ends[i])
			if err != nil || back == "pause" && !until.After(time.Now()) {
				return "the end of its pause has passed", nil //nolint:nilerr // As for one that cannot be read.
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

// each applies a change to endpoints one after the other and collects the results. A refused
// endpoint does not affect the others. An error that concerns all endpoints, e.g. a missing scope,
// ends the loop; it is returned if nothing was changed.
func (v *pageRequest) each(r *bulkResult, ids []string, do func(i int, e client.Endpoint) (left string, err error)) error {
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
			r.refused = append(r.refused, number(len(ids)-i-1, "endpoint after it was", "endpoints after it were")+" not attempted")
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
func (v *pageRequest) set(id, action string, p paused) error {
	if action == "resume" {
		return v.post(endpointAPI(id, "/resume"), "", nil, nil)
	}
	return v.post(endpointAPI(id, "/pause"), "", client.PauseRequest{Until: p.until, Reason: given(p.reason)}, nil)
}

// bulkPause reads the fields of a bulk pause, so that all endpoints get the same end.
func (v *pageRequest) bulkPause(action string, now time.Time) (p paused, err error) {
	if action != "pause" {
		return p, nil
	}
	if p.reason = v.value("reason"); p.reason == "" {
		return p, badField("reason", "must be set: a reason for the pause")
	}
	if p.until, err = v.instant("until"); err != nil {
		return p, err
	}
	switch {
	case v.value("for") != "" && p.until != nil:
		return p, badField("until", "must be empty if a duration is given; keep one of the two")
	case v.value("for") != "":
		length, err := v.length("for")
		if err != nil {
			return p, err
		}
		p.until = new(now.Add(time.Duration(length) * time.Millisecond).UTC().Truncate(time.Second))
	}
	if p.until != nil && !p.until.After(now) {
		return p, badField("until", "must be in the future")
	}
	return p, nil
}

// words describes the outcome of a bulk action.
func (r bulkResult) words() string {
	words := number(len(r.done), "endpoint", "endpoints") + map[string]string{"pause": " paused", "resume": " resumed"}[r.action]
	if r.undone {
		words += ", as before"
	}
	return words
}

// end describes the end of the pause that was set; empty: none was set.
func (r bulkResult) end() string {
	switch {
	case r.action != "pause" || r.undone || len(r.done) == 0:
		return ""
	case r.done[0].until == "":
		return "The pause lasts until the endpoints are resumed."
	default:
		until, _ := time.Parse(time.RFC3339Nano, r.done[0].until) // It was written here.
		return "The pause ends at " + dated(until) + "."
	}
}

// undo describes the undo of the action.
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
