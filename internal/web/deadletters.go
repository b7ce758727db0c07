package web

import (
	"crypto/rand"
	"net/url"
	"time"

	"rubato/client"
	"rubato/internal/auth"
)

// rowsPerPage is the number of rows on a page of a list.
const rowsPerPage = "50"

// letterList is the view model of the list of dead letters.
type letterList struct {
	items    []client.DeadLetter
	byID     map[string]string // names of endpoints by their ids
	now      time.Time
	state    string
	reason   string
	endpoint string
	cursor   string
	next     string
	write    bool
	once     string // Idempotency-Key of the replays of this page, so that it sends one batch once
}

// letters shows the dead letters, open ones if the filter says nothing.
func (v *pageRequest) letters() error {
	list := letterList{
		now:      time.Now(),
		state:    v.value("state"),
		reason:   v.value("reason"),
		endpoint: v.value("endpoint"),
		cursor:   v.value("cursor"),
		write:    v.who.May(auth.Write),
		once:     rand.Text(),
	}
	if !v.r.URL.Query().Has("state") {
		list.state = string(client.DeadLetterStateOpen)
	}
	query := url.Values{"limit": {rowsPerPage}}
	for name, value := range map[string]string{"state": list.state, "reasonCode": list.reason, "endpointId": list.endpoint, "cursor": list.cursor} {
		if value != "" {
			query.Set(name, value)
		}
	}
	var found client.DeadLetterList
	if err := v.get("/v1/dead-letters", query, &found); err != nil {
		return err
	}
	list.items, list.next = found.Items, text(found.NextCursor)
	ids := make([]string, len(list.items))
	for i, l := range list.items {
		ids[i] = l.EndpointID
	}
	var err error
	if list.byID, err = v.names(ids); err != nil {
		return err
	}
	return v.show(page{title: "Dead letters", nav: "dead-letters"}, lettersPage(list))
}

// link returns the path of the list with the same filters at another cursor.
func (list letterList) link(cursor string) string {
	q := url.Values{"state": {list.state}}
	for name, value := range map[string]string{"reason": list.reason, "endpoint": list.endpoint, "cursor": cursor} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return "/console/dead-letters?" + q.Encode()
}

// letterView is the view model of one dead letter.
type letterView struct {
	letter client.DeadLetter
	name   string // of the endpoint
	now    time.Time
	write  bool
	once   string // Idempotency-Key of a replay or discard
}

func letterAPI(id string) string { return "/v1/dead-letters/" + url.PathEscape(id) }

func (v *pageRequest) letter() error {
	view := letterView{
		now:   time.Now(),
		write: v.who.May(auth.Write),
		once:  rand.Text(),
	}
	if err := v.get(letterAPI(v.r.PathValue("id")), nil, &view.letter); err != nil {
		return err
	}
	names, err := v.names([]string{view.letter.EndpointID})
	if err != nil {
		return err
	}
	view.name = names[view.letter.EndpointID]
	return v.show(page{title: "Dead letter", nav: "dead-letters"}, letterPage(view))
}

// replayLetter queues a run with the request of a dead letter, and shows it.
func (v *pageRequest) replayLetter() error {
	var planned client.PlannedRun
	body := client.DeadLetterReplay{NewIdempotencyKey: new(v.value("newKey") != "")}
	if err := v.post(letterAPI(v.r.PathValue("id"))+"/replay", v.value("once"), body, &planned); err != nil {
		return err
	}
	return v.seeOther("/console/runs/" + planned.RunID)
}

// discardLetter marks a dead letter as handled, for a reason.
func (v *pageRequest) discardLetter() error {
	id := v.r.PathValue("id")
	if err := v.post(letterAPI(id)+"/discard", v.value("once"), client.DeadLetterDiscard{Reason: v.value("reason")}, nil); err != nil {
		return err
	}
	return v.seeOther("/console/dead-letters/" + id)
}

// replayLetters queues runs for all open dead letters of a filter, one per second.
func (v *pageRequest) replayLetters() error {
	body := client.DeadLetterReplayAll{
		EndpointID: given(v.value("endpoint")),
		ReasonCode: given(v.value("reason")),
		PerMinute:  new(int32(replaysPerMinute)),
	}
	var done client.DeadLetterReplayResult
	if err := v.post("/v1/dead-letters/replay", v.value("once"), body, &done); err != nil {
		return err
	}
	return v.seeOther(letterList{reason: v.value("reason"), endpoint: v.value("endpoint")}.link(""))
}

// replaysPerMinute is the rate of replays from the console, which is gentle to a target that has
// just recovered.
const replaysPerMinute = 60
