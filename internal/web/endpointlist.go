package web

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"rubato/client"
	"rubato/internal/auth"
	"rubato/internal/console"
	"rubato/internal/endpoints"
	"rubato/internal/pair"
)

const (
	endpointsPerPage = 50
	// maxBulk is how many endpoints one bulk action takes: a page of them.
	maxBulk = endpointsPerPage
)

// search is what a list of endpoints shows.
type search struct {
	text   string // how names begin, or the id of an endpoint
	labels []string
	state  string
	cursor string
}

// endpointRows is a page of the list.
type endpointRows struct {
	search
	items  []client.Endpoint
	sparks map[string][]console.Spark // by the endpoint's id
	next   string                     // the cursor of the page after; empty: none
	now    time.Time
	write  bool
	notice string // what a bulk action did
	// refused says what a bulk action did not do, and why.
	refused []string
}

func (v *visit) searched() search {
	s := search{text: v.value("q"), state: v.value("state"), cursor: v.value("cursor")}
	if !slices.Contains([]string{"active", "paused", "archived"}, s.state) {
		s.state = ""
	}
	for _, label := range splitLabels(v.value("label")) {
		if _, _, found := pair.Cut(label, ':'); !found {
			label += ":"
		}
		s.labels = append(s.labels, label)
	}
	return s
}

// splitLabels reads labels that are written with blanks or commas between them. One that has some of its own is in quotes.
func splitLabels(text string) (labels []string) {
	const between = " ,"
	for text = strings.TrimLeft(text, between); text != ""; text = strings.TrimLeft(text, between) {
		if quoted, err := strconv.QuotedPrefix(text); err == nil && text[0] == '"' {
			label, _ := strconv.Unquote(quoted) // It is quoted.
			labels, text = append(labels, label), text[len(quoted):]
			continue
		}
		end := strings.IndexAny(text, between)
		if end < 0 {
			end = len(text)
		}
		labels, text = append(labels, text[:end]), text[end:]
	}
	return labels
}

// joinLabels writes labels so that splitLabels reads them back.
func joinLabels(labels []string) string {
	written := make([]string, len(labels))
	for i, label := range labels {
		if written[i] = label; strings.ContainsAny(label, " ,") || strings.HasPrefix(label, `"`) {
			written[i] = strconv.Quote(label)
		}
	}
	return strings.Join(written, " ")
}

// query returns the search as the API takes it.
func (s search) query() url.Values {
	q := url.Values{"limit": {strconv.Itoa(endpointsPerPage)}}
	for name, value := range map[string]string{"namePrefix": s.text, "state": s.state, "cursor": s.cursor} {
		if value != "" {
			q.Set(name, value)
		}
	}
	q["label"] = s.labels
	return q
}

// link returns the path of the list with the same search at another cursor.
func (s search) link(cursor string) string {
	q := url.Values{}
	for name, value := range map[string]string{"q": s.text, "state": s.state, "label": joinLabels(s.labels), "cursor": cursor} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if len(q) == 0 {
		return "/console/endpoints"
	}
	return "/console/endpoints?" + q.Encode()
}

func (v *visit) endpointList() error {
	s := v.searched()
	if _, err := endpoints.ParseID(s.text); err == nil {
		return v.seeOther("/console/endpoints/" + s.text)
	}
	rows, err := v.rows(s)
	if err != nil {
		return err
	}
	if v.fragment() {
		return v.part(endpointTable(rows))
	}
	return v.show(page{title: "Endpoints", nav: "endpoints"}, endpointListPage(rows))
}

func (v *visit) rows(s search) (endpointRows, error) {
	rows := endpointRows{search: s, now: time.Now(), write: v.who.May(auth.Write)}
	var list client.EndpointList
	if err := v.get("/v1/endpoints", s.query(), &list); err != nil {
		return rows, err
	}
	rows.items = list.Items
	rows.next = text(list.NextCursor)
	ids := make([][16]byte, 0, len(list.Items))
	for _, e := range list.Items {
		id, err := endpoints.ParseID(e.ID)
		if err != nil {
			return rows, err
		}
		ids = append(ids, id)
	}
	found, err := v.figures.Sparks(v.r.Context(), v.who.TenantID, ids, sparkRuns)
	if err != nil {
		return rows, err
	}
	rows.sparks = map[string][]console.Spark{}
	for id, runs := range found {
		rows.sparks[endpoints.ID(id).String()] = runs
	}
	return rows, nil
}

// bulk pauses or resumes the endpoints that are ticked, one after the other, each as its own request.
func (v *visit) bulk() error {
	ids, action := v.r.Form["id"], v.value("action")
	switch {
	case action != "pause" && action != "resume":
		return notFound("there is no such action")
	case len(ids) == 0:
		return &client.Problem{Status: http.StatusUnprocessableEntity, Title: "Nothing is ticked", Detail: "tick the endpoints to " + action}
	case len(ids) > maxBulk:
		return &client.Problem{Status: http.StatusUnprocessableEntity, Title: "Too many", Detail: "at most " + strconv.Itoa(maxBulk) + " endpoints at once"}
	}
	var body any
	if action == "pause" {
		body = client.PauseRequest{Reason: new("paused together with others")}
	}
	var refused []string
	for i, id := range ids {
		err := v.post(endpointAPI(id, "/"+action), "", body, nil)
		if err == nil {
			continue
		}
		problem := problemOf(err)
		refused = append(refused, id+": "+problem.Detail)
		// One that is refused keeps no other from being done; what would fail for each of them ends it.
		if everywhere := problem.Status >= http.StatusInternalServerError || problem.Status == http.StatusTooManyRequests; everywhere || len(refused) == len(ids) {
			problem.Detail = strconv.Itoa(i+1-len(refused)) + " of " + strconv.Itoa(len(ids)) + " were done; " + strings.Join(refused, "; ")
			return &problem
		}
	}
	rows, err := v.rows(v.searched())
	if err != nil {
		return err
	}
	rows.refused = refused
	rows.notice = number(len(ids)-len(refused), "endpoint", "endpoints") + map[string]string{"pause": " paused.", "resume": " resumed."}[action]
	if v.fragment() {
		return v.part(endpointTable(rows))
	}
	return v.show(page{title: "Endpoints", nav: "endpoints"}, endpointListPage(rows))
}

// stateOf says whether an endpoint runs, in one word.
func stateOf(e client.Endpoint) string {
	if e.State == client.EndpointStateActive && e.Running != nil {
		return "running"
	}
	return string(e.State)
}
