package web

import (
	"net/url"
	"time"

	"rubato/client"
	"rubato/internal/auth"
)

// callList is the view model of the list of calls.
type callList struct {
	items        []client.Call
	now          time.Time
	open         bool // only calls that have not ended
	cursor, next string
	write        bool
}

// callList shows the calls, those that have not ended if the filter says nothing.
func (v *pageRequest) callList() error {
	list := callList{
		now:    time.Now(),
		open:   v.value("show") != "all",
		cursor: v.value("cursor"),
		write:  v.who.May(auth.Write),
	}
	query := url.Values{"limit": {rowsPerPage}}
	if list.open {
		query.Set("open", "true")
	}
	if list.cursor != "" {
		query.Set("cursor", list.cursor)
	}
	var found client.CallList
	if err := v.get("/v1/calls", query, &found); err != nil {
		return err
	}
	list.items, list.next = found.Items, text(found.NextCursor)
	return v.show(page{title: "Calls", nav: "calls"}, callsPage(list))
}

// link returns the path of the list with the same filter at another cursor.
func (list callList) link(cursor string) string {
	q := url.Values{"show": {"all"}}
	if list.open {
		q.Set("show", "open")
	}
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	return "/console/calls?" + q.Encode()
}

// cancelCall cancels a call that waits.
func (v *pageRequest) cancelCall() error {
	if err := v.call(apiRequest{method: "DELETE", path: "/v1/calls/" + url.PathEscape(v.r.PathValue("id"))}, nil); err != nil {
		return err
	}
	return v.seeOther("/console/calls")
}
