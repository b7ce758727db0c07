package web

import (
	"cmp"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"rubato/client"
	"rubato/internal/auth"
)

// mostHosts bounds the hosts on the page. The worst ones of the first mostHosts by name are shown
// first.
const mostHosts = 1000

// The defaults of the contract, which the form shows as empty fields.
const (
	usualFailures = 5
	usualWindowMs = 30_000
)

// hostsView is the view model of the page of hosts.
type hostsView struct {
	list []client.Host
	// more is set if there are more hosts than the page holds.
	more  bool
	now   time.Time
	write bool
}

func (v *pageRequest) hosts() error {
	view, err := v.hostsView()
	if err != nil {
		return err
	}
	return v.show(page{title: "Hosts", nav: "hosts"}, hostsPage(view))
}

// hostsView reads the hosts, worst first: open before half-open before limited ones, and among
// equal ones the slowest.
func (v *pageRequest) hostsView() (view hostsView, err error) {
	view = hostsView{now: time.Now(), write: v.who.May(auth.Write)}
	query := url.Values{"limit": {"500"}}
	for {
		var page client.HostList
		if err := v.get("/v1/hosts", query, &page); err != nil {
			return view, err
		}
		view.list = append(view.list, page.Items...)
		if view.more = page.NextCursor != nil; !view.more || len(view.list) >= mostHosts {
			break
		}
		query.Set("cursor", *page.NextCursor)
	}
	slices.SortStableFunc(view.list, func(a, b client.Host) int {
		return cmp.Or(cmp.Compare(severity(b), severity(a)), cmp.Compare(value(b.LatencyMs), value(a.LatencyMs)), cmp.Compare(b.Failures, a.Failures))
	})
	return view, nil
}

// severity orders hosts: the higher, the worse.
func severity(h client.Host) int {
	switch {
	case h.State == client.HostStateOpen:
		return 3
	case h.State == client.HostStateHalfOpen:
		return 2
	case h.Adaptive.Concurrency != nil || h.Adaptive.Rate != nil:
		return 1
	default:
		return 0
	}
}

// limitWords writes limits in words; empty: there are none.
func limitWords(l client.HostLimits) string {
	var parts []string
	if l.Concurrency != nil {
		parts = append(parts, numberField(l.Concurrency)+" in flight")
	}
	if l.Rate != nil {
		parts = append(parts, strconv.FormatFloat(math.Round(*l.Rate*100)/100, 'f', -1, 64)+" per s")
	}
	return strings.Join(parts, ", ")
}

// numberField writes a number for a field; nil is empty.
func numberField(n *float64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatFloat(*n, 'f', -1, 64)
}

func hostTone(s client.HostState) string {
	switch s {
	case client.HostStateOpen:
		return "bad"
	case client.HostStateHalfOpen:
		return "held"
	case client.HostStateClosed:
	}
	return "good"
}

// newHost shows the form for the settings of a host that has none yet.
func (v *pageRequest) newHost() error {
	return v.dialog("Limit a host", "hosts", hostDialog(client.Host{}))
}

// editHost shows the form for the settings of a host.
func (v *pageRequest) editHost() error {
	var h client.Host
	if err := v.get(hostAPI(v.r.PathValue("host")), nil, &h); err != nil {
		return err
	}
	return v.dialog("Edit "+h.Host, "hosts", hostDialog(h))
}

func hostAPI(name string) string { return "/v1/hosts/" + url.PathEscape(name) }

// putHost stores the settings of a host. An empty field restores the default.
func (v *pageRequest) putHost() error {
	typed, problem := v.hostTyped()
	if problem == nil {
		if err := v.call(apiRequest{
			method: http.MethodPatch,
			path:   hostAPI(v.value("host")),
			body:   typed,
		}, nil); err != nil {
			problem = new(problemOf(err))
		}
	}
	if problem != nil {
		return v.html(int(problem.Status), problemNotice(*problem))
	}
	return v.seeOther("/console/hosts")
}

// hostTyped reads the form of a host. The API validates it; only unparsable values are refused
// here.
func (v *pageRequest) hostTyped() (map[string]any, *client.Problem) {
	if v.value("host") == "" {
		return nil, unreadable("host", "must be set: host and port")
	}
	typed, limits := map[string]any{"failuresToOpen": nil, "windowMs": nil}, map[string]any{"concurrency": nil, "rate": nil}
	typed["limits"] = limits
	if text := v.value("window"); text != "" {
		window, err := parseLength(text)
		if err != nil {
			return nil, unreadable("window", err.Error())
		}
		typed["windowMs"] = window
	}
	for field, into := range map[string]map[string]any{"failuresToOpen": typed, "concurrency": limits} {
		if text := v.value(field); text != "" {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return nil, unreadable(field, "must be a whole number")
			}
			into[field] = n
		}
	}
	if text := v.value("rate"); text != "" {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
			return nil, unreadable("rate", "must be a number of requests per second")
		}
		limits["rate"] = n
	}
	return typed, nil
}

// resetHost closes the breaker of a host.
func (v *pageRequest) resetHost() error {
	if err := v.post(hostAPI(v.r.PathValue("host"))+"/reset", "", nil, nil); err != nil {
		return err
	}
	return v.seeOther("/console/hosts")
}

// failuresField writes the number of failures for a field. The default is empty.
func failuresField(n int64) string {
	if n == 0 || n == usualFailures {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// windowField writes the first window for a field. The default is empty.
func windowField(ms int64) string {
	if ms == usualWindowMs {
		return ""
	}
	return lengthField(ms)
}

func (v *pageRequest) hostsLive() error {
	return v.live(func() (templ.Component, error) {
		view, err := v.hostsView()
		return hostTable(view), err
	})
}
