package web

import (
	"context"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"rubato/client"
	"rubato/internal/auth"
	"rubato/internal/endpoints"
	"rubato/internal/notation"
	"rubato/internal/stats"
)

const endpointsPerPage = 50

// search is the filter of a list of endpoints.
type search struct {
	text   string // how names begin, or the id of an endpoint
	labels []string
	host   string // host and port of the URL
	state  string
	cursor string
}

// endpointRows is a page of the list.
type endpointRows struct {
	search
	items  []client.Endpoint
	sparks map[string][]stats.RunSample // by the endpoint's id
	next   string                       // the cursor of the page after; empty: none
	now    time.Time
	write  bool
	frame  string            // changes with the endpoints that are listed
	tags   map[string]string // change with what rows show; by the endpoint's id
}

func (v *pageRequest) searched() search {
	s := search{
		text:   v.value("q"),
		host:   strings.TrimSuffix(v.value("host"), ":"), // The port is still being typed.
		state:  v.value("state"),
		cursor: v.value("cursor"),
	}
	if !slices.Contains([]string{"active", "paused", "archived"}, s.state) {
		s.state = ""
	}
	for _, label := range splitLabels(v.value("label")) {
		s.labels = append(s.labels, labelTyped(label))
	}
	return s
}

// labelTyped returns a label as NAME=VALUE. Old links have a colon instead of the equals sign. A
// name alone has an empty value.
func labelTyped(label string) string {
	if _, _, found := notation.CutPair(label, '='); found {
		return label
	}
	if name, value, found := notation.CutPair(label, ':'); found {
		return notation.JoinPair(name, "=", value)
	}
	return label + "="
}

// splitLabels parses labels separated by blanks or commas. A label with a blank or comma is in
// quotes.
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
	for name, value := range map[string]string{"namePrefix": s.text, "host": s.host, "state": s.state, "cursor": s.cursor} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for _, label := range s.labels {
		name, value, _ := notation.CutPair(label, '=')
		q.Add("label", notation.JoinPair(name, ":", value))
	}
	return q
}

// link returns the path of the list with the same search at another cursor.
func (s search) link(cursor string) string {
	q := url.Values{}
	for name, value := range map[string]string{"q": s.text, "host": s.host, "state": s.state, "label": joinLabels(s.labels), "cursor": cursor} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if len(q) == 0 {
		return "/console/endpoints"
	}
	return "/console/endpoints?" + q.Encode()
}

func (v *pageRequest) endpointList() error {
	s := v.searched()
	if _, err := endpoints.ParseID(s.text); err == nil {
		return v.seeOther("/console/endpoints/" + s.text)
	}
	rows, err := v.rows(s)
	if err != nil {
		return err
	}
	if v.fragment() {
		return v.changed(rows)
	}
	return v.show(page{title: "Endpoints", nav: "endpoints"}, endpointListPage(rows))
}

func (v *pageRequest) rows(s search) (endpointRows, error) {
	rows := endpointRows{
		search: s,
		now:    time.Now(),
		write:  v.who.May(auth.Write),
	}
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
	rows.sparks = map[string][]stats.RunSample{}
	for id, runs := range found {
		rows.sparks[endpoints.ID(id).String()] = runs
	}
	return rows, rows.mark(v.r.Context())
}

// rowsHeader is the request header with the browser's current rows: the hash of the table frame,
// then the hash of each row.
const rowsHeader = "Rubato-Rows"

// mark computes the hashes of the list. Rows that look the same have the same hash. The time until
// the next run is left out, because the browser keeps that up to date.
func (rows *endpointRows) mark(ctx context.Context) error {
	frame := fnv.New64a()
	still := *rows
	still.now = time.Time{}
	rows.tags = make(map[string]string, len(rows.items))
	for _, e := range rows.items {
		row := fnv.New64a()
		if err := endpointCells(still, e).Render(ctx, row); err != nil { //nolint:contextcheck // Render passes it on.
			return fmt.Errorf("marking the rows of a list: %w", err)
		}
		rows.tags[e.ID] = strconv.FormatUint(row.Sum64(), 36)
		_, _ = frame.Write([]byte(e.ID)) // A hash takes everything.
	}
	_, _ = fmt.Fprint(frame, rows.link(rows.cursor), rows.next, rows.write) // As above.
	rows.frame = strconv.FormatUint(frame.Sum64(), 36)
	return nil
}

// changed sends the rows that differ from the rows in the browser. If the set of endpoints has
// changed, it sends the whole list; if nothing has changed, it is empty.
func (v *pageRequest) changed(rows endpointRows) error {
	known := strings.Split(v.r.Header.Get(rowsHeader), ",")
	if len(known) != len(rows.items)+1 || known[0] != rows.frame {
		return v.part(endpointTable(rows))
	}
	news := rows
	news.items = nil
	for i, e := range rows.items {
		if rows.tags[e.ID] != known[i+1] {
			news.items = append(news.items, e)
		}
	}
	if len(news.items) == 0 {
		v.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	v.w.Header().Set("Rubato-Part", "rows")
	return v.part(endpointRowList(news))
}

// stateOf says whether an endpoint runs, in one word.
func stateOf(e client.Endpoint) string {
	if e.State == client.EndpointStateActive && e.Running != nil {
		return "running"
	}
	return string(e.State)
}
