package web

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"time"

	"rubato/client"
	"rubato/internal/auth"
)

// windowFields holds the field values of a maintenance window's form. Times are UTC.
type windowFields struct {
	old              string // the name of the window that is edited; empty: a new one
	startsAt, endsAt string
	endpoint, labels string
	reason           string
}

// newWindow answers with the form of a window that begins now and lasts for an hour.
func (v *pageRequest) newWindow() error {
	if !v.who.May(auth.Write) {
		return forbidden()
	}
	now := time.Now().UTC().Truncate(time.Minute)
	return v.dialog("New maintenance window", "notices", windowDialog(windowFields{startsAt: now.Format(fieldTime), endsAt: now.Add(time.Hour).Format(fieldTime)}))
}

// editWindow answers with the form of a window as it stands.
func (v *pageRequest) editWindow() error {
	w, err := v.window()
	if err != nil {
		return err
	}
	return v.dialog("Edit "+w.Name, "notices", windowDialog(windowFields{
		old:      w.Name,
		startsAt: fieldInstant(w.StartsAt),
		endsAt:   fieldInstant(w.EndsAt),
		endpoint: text(w.EndpointID),
		labels:   labelLines(w.Labels),
		reason:   w.Reason,
	}))
}

// fieldInstant writes an instant for a field, with its seconds where it has some.
func fieldInstant(t time.Time) string {
	if t = t.UTC(); t.Second() != 0 {
		return t.Format(fieldTime + ":05")
	}
	return t.Format(fieldTime)
}

// window reads the window of a request. It requires the scope write.
func (v *pageRequest) window() (w client.MaintenanceWindow, err error) {
	if !v.who.May(auth.Write) {
		return w, forbidden()
	}
	list, err := v.windowList()
	if err != nil {
		return w, err
	}
	for _, w := range list {
		if w.Name == v.r.PathValue("name") {
			return w, nil
		}
	}
	return w, notFound("there is no maintenance window of this name")
}

// windowList reads all windows. A tenant has at most as many as one page of the API holds.
func (v *pageRequest) windowList() ([]client.MaintenanceWindow, error) {
	var list client.MaintenanceWindowList
	err := v.get("/v1/maintenance-windows", url.Values{"limit": {"500"}}, &list)
	return list.Items, err
}

// windowAPI returns the path of a window in the API.
func windowAPI(name string) string { return "/v1/maintenance-windows/" + url.PathEscape(name) }

// putWindow stores the window of a form.
func (v *pageRequest) putWindow() error {
	window, problem := v.windowTyped()
	only := http.Header{}
	if v.value("old") == "" {
		only.Set("If-None-Match", "*")
	}
	return v.put(windowAPI(v.value("name")), only, window, problem)
}

// windowTyped reads the form of a window. The API validates it; only unparsable values are refused
// here.
func (v *pageRequest) windowTyped() (map[string]any, *client.Problem) {
	if v.value("name") == "" {
		return nil, unreadable("name", "must be set: the name of the window")
	}
	window := map[string]any{"reason": v.value("reason")}
	for _, field := range []string{"startsAt", "endsAt"} {
		at, err := v.instant(field)
		if err != nil || at == nil {
			return nil, unreadable(field, "must be a date and a time (UTC), such as 2026-12-24T18:00")
		}
		window[field] = *at
	}
	if problem := v.scopeTyped(window); problem != nil {
		return nil, problem
	}
	return window, nil
}

// windowWhat shows the effect of the window with the current field values.
func (v *pageRequest) windowWhat() error {
	from, err := v.instant("startsAt")
	if err != nil {
		return v.part(problemNotice(problemOf(err)))
	}
	until, err := v.instant("endsAt")
	if err != nil {
		return v.part(problemNotice(problemOf(err)))
	}
	if from == nil || until == nil {
		return v.part(windowEffect("Set a start and an end."))
	}
	scope := map[string]any{}
	if problem := v.scopeTyped(scope); problem != nil {
		return v.part(problemNotice(*problem))
	}
	return v.part(windowEffect(windowWords(*from, *until, time.Now(), len(scope) > 0)))
}

// windowWords describes the effect of a window.
func windowWords(from, until, now time.Time, some bool) string {
	if !until.After(from) {
		return "The end is before the start."
	}
	if !until.After(now) {
		return "The window has ended and delays no notices."
	}
	whom := "any endpoint"
	if some {
		whom = "these endpoints"
	}
	begins := relative(from, now)
	if !from.After(now) {
		begins = "now"
	}
	return "No notices for " + whom + " for " + duration(until.Sub(from)) + ", from " + begins + " until " + dated(until) +
		". Episodes that open in the window and still last at its end are sent then."
}

// windowToEnd returns the window of a request, and whether to delete it instead of ending it.
func (v *pageRequest) windowToEnd() (w client.MaintenanceWindow, deleted bool, err error) {
	verb := v.r.PathValue("verb")
	if verb != "end" && verb != "delete" {
		return w, false, notFound("there is no such action")
	}
	w, err = v.window()
	return w, verb == "delete", err
}

// askWindow asks whether a window is to be ended or deleted.
func (v *pageRequest) askWindow() error {
	w, deleted, err := v.windowToEnd()
	if err != nil {
		return err
	}
	path := "/console/notices/windows/" + url.PathEscape(w.Name)
	if !deleted {
		return v.ask(question{
			title: "End the window " + w.Name,
			verb:  "End now",
			path:  path + "/end",
			does:  "Ends the window now instead of at " + dated(w.EndsAt) + ". Delayed notices of open episodes are sent immediately.",
		})
	}
	return v.ask(question{
		title: "Delete the window " + w.Name,
		verb:  "Delete",
		path:  path + "/delete",
		gone:  true,
		does:  "Deletes the window. Delayed notices of open episodes are sent immediately.",
	})
}

// endWindow lets a window end now, or deletes it.
func (v *pageRequest) endWindow() error {
	w, deleted, err := v.windowToEnd()
	if err != nil {
		return err
	}
	request := apiRequest{method: http.MethodDelete, path: windowAPI(w.Name)}
	if !deleted {
		request = apiRequest{
			method: http.MethodPut,
			path:   windowAPI(w.Name),
			body: client.MaintenanceWindowSpec{
				StartsAt:   w.StartsAt,
				EndsAt:     later(time.Now().UTC(), w.StartsAt.Add(time.Second)),
				Reason:     &w.Reason,
				EndpointID: w.EndpointID,
				Labels:     w.Labels,
			},
		}
	}
	if err := v.call(request, nil); err != nil {
		return v.html(int(problemOf(err).Status), problemNotice(problemOf(err)))
	}
	return v.seeOther("/console/notices")
}

// byTime sorts windows: current and future ones by their start, then past ones, newest first.
func byTime(list []client.MaintenanceWindow, now time.Time) {
	slices.SortStableFunc(list, func(a, b client.MaintenanceWindow) int {
		over, other := !a.EndsAt.After(now), !b.EndsAt.After(now)
		switch {
		case over && other:
			return b.EndsAt.Compare(a.EndsAt)
		case over:
			return 1
		case other:
			return -1
		default:
			return cmp.Or(a.StartsAt.Compare(b.StartsAt), cmp.Compare(a.Name, b.Name))
		}
	})
}

// dated writes an instant with its day and its zone.
func dated(t time.Time) string { return t.UTC().Format("Mon 2 Jan 2006 15:04:05 UTC") }
