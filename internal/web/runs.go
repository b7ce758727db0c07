package web

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/a-h/templ"

	"rubato/client"
	"rubato/internal/auth"
)

const runsPerPage = "50"

// runRows is a list of runs.
type runRows struct {
	items    []client.Run
	names    bool              // the list is of several endpoints, which have a column
	byID     map[string]string // names of endpoints by their ids
	now      time.Time
	endpoint string
	status   string
	cursor   string
	next     string
}

func (v *pageRequest) runRows() (runRows, error) {
	rows := runRows{
		now:      time.Now(),
		names:    true,
		endpoint: v.value("endpoint"),
		status:   v.value("status"),
		cursor:   v.value("cursor"),
	}
	query := url.Values{"limit": {runsPerPage}}
	for name, value := range map[string]string{"endpointId": rows.endpoint, "status": rows.status, "cursor": rows.cursor} {
		if value != "" {
			query.Set(name, value)
		}
	}
	var list client.RunList
	if err := v.get("/v1/runs", query, &list); err != nil {
		return rows, err
	}
	rows.items, rows.next = list.Items, text(list.NextCursor)
	return rows, v.nameRuns(&rows)
}

// nameRuns finds the names of the endpoints of a list of runs.
func (v *pageRequest) nameRuns(rows *runRows) error {
	ids := make([]string, len(rows.items))
	for i, r := range rows.items {
		ids[i] = r.EndpointID
	}
	names, err := v.names(ids)
	rows.byID = names
	return err
}

// link returns the path of the list with the same filters at another cursor.
func (rows runRows) link(path, cursor string) string {
	q := url.Values{}
	for name, value := range map[string]string{"endpoint": rows.endpoint, "status": rows.status, "cursor": cursor} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

func (v *pageRequest) runList() error {
	rows, err := v.runRows()
	if err != nil {
		return err
	}
	return v.show(page{title: "Runs", nav: "runs"}, runListPage(rows))
}

// runListLive is the live tail of the list. Older pages do not move.
func (v *pageRequest) runListLive() error {
	return v.live(func() (templ.Component, error) {
		rows, err := v.runRows()
		return runTable(rows), err
	})
}

// story is everything that the page of a run shows.
type story struct {
	run      client.Run
	endpoint client.Endpoint
	events   []client.RunEvent
	now      time.Time
	write    bool
	once     string // Idempotency-Key of a rerun, so that a double click queues one
}

// ended reports whether a run is over and can be repeated.
func ended(r client.Run) bool {
	return r.Status != client.RunStatusRunning && r.Status != client.RunStatusWaiting
}

func (v *pageRequest) run() error {
	s := story{
		now:   time.Now(),
		write: v.who.May(auth.Write),
		once:  rand.Text(),
	}
	path := "/v1/runs/" + url.PathEscape(v.r.PathValue("id"))
	if err := v.get(path, nil, &s.run); err != nil {
		return err
	}
	var events client.RunEventList
	if err := v.get(path+"/events", nil, &events); err != nil {
		return err
	}
	s.events = events.Items
	if err := v.owner(&s); err != nil {
		return err
	}
	return v.show(page{title: "Run of " + shorten(s.endpoint.Name, 50), nav: "runs"}, runPage(s))
}

// owner reads the endpoint of a run. A call stands for one with its request.
func (v *pageRequest) owner(s *story) error {
	if !isCall(s.run.EndpointID) {
		return v.get(endpointAPI(s.run.EndpointID, ""), nil, &s.endpoint)
	}
	var call client.Call
	if err := v.get("/v1/calls/"+url.PathEscape(s.run.EndpointID), nil, &call); err != nil {
		return err
	}
	s.endpoint = client.Endpoint{
		ID:     call.ID,
		Name:   call.ID,
		Method: call.Method,
		URL:    call.URL,
	}
	return nil
}

func (v *pageRequest) cancelRun() error {
	id := v.r.PathValue("id")
	if err := v.post("/v1/runs/"+url.PathEscape(id)+"/cancel", "", client.CancelRequest{Reason: new("canceled in the console")}, nil); err != nil {
		return err
	}
	return v.seeOther("/console/runs/" + id)
}

// rerun queues a run that repeats another one, and shows it.
func (v *pageRequest) rerun() error {
	body := client.RerunRequest{As: new(client.RerunRequestAs(v.value("as")))}
	var planned client.PlannedRun
	if err := v.post("/v1/runs/"+url.PathEscape(v.r.PathValue("id"))+"/rerun", v.value("once"), body, &planned); err != nil {
		return err
	}
	if planned.CallID != nil { // Its run is not known before it has started.
		return v.seeOther("/console/calls")
	}
	return v.seeOther("/console/runs/" + planned.RunID)
}

// phase is a part of the time that a request took, in percent of the whole.
type phase struct {
	name, tone    string
	ms            float64
	offset, width float64
}

// phases returns the durations of a run's phases. The rest of the time is shown as overhead.
func phases(r client.Run) []phase {
	if r.Phases == nil || r.DurationMs == nil {
		return nil
	}
	list := []phase{ //nolint:prealloc // It is whole but for what no phase names.
		{name: "DNS", tone: "dns", ms: r.Phases.DNSMs},
		{name: "Connect", tone: "connect", ms: r.Phases.ConnectMs},
		{name: "TLS", tone: "tls", ms: r.Phases.TLSMs},
		{name: "Wait", tone: "wait", ms: r.Phases.WaitMs},
		{name: "Transfer", tone: "transfer", ms: r.Phases.TransferMs},
	}
	var named float64
	for _, p := range list {
		named += p.ms
	}
	whole := max(*r.DurationMs, named, 0.001)
	list = append(list, phase{
		name: "Other",
		tone: "quiet",
		ms:   whole - named,
	})
	var offset float64
	for i := range list {
		list[i].offset, list[i].width = offset, list[i].ms/whole*100
		offset += list[i].width
	}
	return slices.DeleteFunc(list, func(p phase) bool { return p.ms <= 0 })
}

// bodyText returns the captured response body as text: indented JSON, or hexadecimal for binary
// data.
func bodyText(r client.Run) string {
	if r.BodyBase64 != nil {
		return hex.Dump(*r.BodyBase64)
	}
	raw := []byte(text(r.Body))
	var set bytes.Buffer
	if json.Valid(raw) && json.Indent(&set, raw, "", "  ") == nil {
		return set.String()
	}
	return string(raw)
}

// tailText returns the captured tail of a response body.
func tailText(r client.Run) string {
	if r.BodyTailBase64 != nil {
		return hex.Dump(*r.BodyTailBase64)
	}
	return text(r.BodyTail)
}

// keptText writes the head of an answer as far as the record of a run keeps it.
func keptText(r client.Run) string {
	head := statusText(r.StatusCode)
	if text(r.ContentType) != "" {
		head += "\nContent-Type: " + text(r.ContentType)
	}
	return head
}

// statusText names the status of an answer, such as 404 Not Found.
func statusText(code *int32) string {
	if code == nil {
		return "no response"
	}
	return count(int64(*code)) + " " + http.StatusText(int(*code))
}
