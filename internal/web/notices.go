package web

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"rubato/client"
	"rubato/internal/auth"
	"rubato/internal/notation"
)

const noticesPerPage = "30"

// noticesView is the view model of the page of notices.
type noticesView struct {
	rules   []client.NoticeRule
	windows []client.MaintenanceWindow
	list    []client.Notice
	next    string
	cursor  string
	now     time.Time
	write   bool
}

func (v *pageRequest) notices() error {
	view := noticesView{
		now:    time.Now(),
		cursor: v.value("cursor"),
		write:  v.who.May(auth.Write),
	}
	all := url.Values{"limit": {"500"}}
	var rules client.NoticeRuleList
	if err := v.get("/v1/notice-rules", all, &rules); err != nil {
		return err
	}
	windows, err := v.windowList()
	if err != nil {
		return err
	}
	query := url.Values{"limit": {noticesPerPage}}
	if view.cursor != "" {
		query.Set("cursor", view.cursor)
	}
	var list client.NoticeList
	if err := v.get("/v1/notices", query, &list); err != nil {
		return err
	}
	byTime(windows, view.now)
	view.rules, view.windows, view.list, view.next = rules.Items, windows, list.Items, text(list.NextCursor)
	return v.show(page{title: "Notices", nav: "notices"}, noticesPage(view))
}

// putRule stores the rule of a form.
func (v *pageRequest) putRule() error {
	rule, problem := v.ruleTyped()
	only := http.Header{"If-None-Match": {"*"}}
	if v.value("old") != "" {
		only = http.Header{"If-Match": {strconv.Quote(v.value("version"))}}
	}
	return v.put(ruleAPI(v.value("name")), only, rule, problem)
}

// put stores the object of a valid form under a precondition, and returns to the page of notices.
// Otherwise it shows the error.
func (v *pageRequest) put(path string, only http.Header, typed map[string]any, problem *client.Problem) error {
	if problem == nil {
		if err := v.call(apiRequest{
			method: http.MethodPut,
			path:   path,
			body:   typed,
			header: only,
		}, nil); err != nil {
			refused := taken(problemOf(err))
			problem = &refused
		}
	}
	if problem != nil {
		return v.html(int(problem.Status), problemNotice(*problem))
	}
	return v.seeOther("/console/notices")
}

// taken says at the field of the name that there is one like it, of which the form knows nothing.
func taken(p client.Problem) client.Problem {
	if p.Code == "name_taken" {
		return *unreadable("name", "is in use; edit the existing object or choose another name")
	}
	return p
}

// ruleTyped reads the form of a rule. The API validates it; only an unparsable duration is refused
// here.
func (v *pageRequest) ruleTyped() (map[string]any, *client.Problem) {
	rule := map[string]any{
		"event": v.value("event"), "recovery": v.value("recovery") != "", "enabled": v.value("enabled") != "", "channel": v.channelTyped(),
	}
	if v.value("name") == "" {
		return nil, unreadable("name", "must be set: the name of the rule")
	}
	if v.value("event") == "failures" {
		n, err := strconv.Atoi(v.value("failures"))
		if err != nil {
			return nil, unreadable("failures", "must be a whole number")
		}
		rule["failures"] = n
	}
	for field, name := range map[string]string{"lateMs": "late", "remindMs": "remind"} {
		if v.value(name) == "" || name == "late" && v.value("event") != "late" {
			continue
		}
		length, err := parseLength(v.value(name))
		if err != nil {
			return nil, unreadable(field, err.Error())
		}
		rule[field] = length
	}
	if problem := v.scopeTyped(rule); problem != nil {
		return nil, problem
	}
	return rule, nil
}

// scopeTyped adds the endpoints that a rule or a window is about.
func (v *pageRequest) scopeTyped(to map[string]any) *client.Problem {
	if id := v.value("endpoint"); id != "" {
		to["endpointId"] = id
	}
	typed := map[string]string{}
	for line := range strings.Lines(v.value("labels")) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, value, found := notation.CutPair(line, '=')
		if !found {
			return unreadable("labels", "must be lines such as team=shop")
		}
		name = strings.TrimSpace(name)
		if _, twice := typed[name]; twice {
			return unreadable("labels", "contain "+name+" twice; keep one")
		}
		typed[name] = strings.TrimSpace(value)
	}
	if len(typed) > 0 {
		to["labels"] = typed
	}
	return nil
}

func (v *pageRequest) channelTyped() map[string]any {
	kind := v.value("kind")
	channel := map[string]any{"kind": kind}
	if kind == "email" {
		channel["to"] = strings.Fields(strings.ReplaceAll(v.value("to"), ",", " "))
		return channel
	}
	fields := []string{"url", "urlSecret", "tokenSecret"}
	if kind == "alertmanager" {
		fields = append(fields, "severity")
		var names []string
		for name := range strings.SplitSeq(v.value("alertLabels"), ",") {
			if name = strings.TrimSpace(name); name != "" {
				names = append(names, name)
			}
		}
		if len(names) > 0 {
			channel["alertLabels"] = names
		}
	}
	for _, name := range fields {
		if typed := v.value(name); typed != "" {
			channel[name] = typed
		}
	}
	return channel
}

func unreadable(field, message string) *client.Problem {
	errors := []client.FieldError{{Field: field, Code: "invalid_value", Message: message}}
	return &client.Problem{
		Status: http.StatusUnprocessableEntity,
		Title:  "Unprocessable Entity",
		Detail: "the form cannot be read; see errors",
		Errors: &errors,
	}
}

// testRule sends a test notice, and shows the outcome beside its button.
func (v *pageRequest) testRule() error {
	v.sendsOnce()
	var result client.NoticeTestResult
	if err := v.post(ruleAPI(v.r.PathValue("name"))+"/test", rand.Text(), nil, &result); err != nil {
		return err
	}
	return v.part(testOutcome(result))
}

func (v *pageRequest) deleteRule() error {
	if err := v.call(apiRequest{method: http.MethodDelete, path: ruleAPI(v.r.PathValue("name"))}, nil); err != nil {
		return err
	}
	return v.seeOther("/console/notices")
}

func (v *pageRequest) retryNotice() error {
	if err := v.post("/v1/notices/"+url.PathEscape(v.r.PathValue("id"))+"/retry", rand.Text(), nil, nil); err != nil {
		return err
	}
	return v.seeOther("/console/notices")
}

// ruleWords describes the event of a rule.
func ruleWords(r client.NoticeRule) string {
	switch r.Event {
	case client.NoticeEventFailures:
		n := int64(0)
		if r.Failures != nil {
			n = int64(*r.Failures)
		}
		return count(n) + " failures in a row"
	case client.NoticeEventLate:
		if r.LateMs != nil {
			return "a start more than " + ms(*r.LateMs) + " late"
		}
		return "a late start"
	case client.NoticeEventLost:
		return "a lost run"
	case client.NoticeEventPaused:
		return "an automatic pause"
	case client.NoticeEventSuggestion:
		return "an open suggestion"
	case client.NoticeEventHostOpen:
		return "an open host"
	case client.NoticeEventDeadLetter:
		return "a dead letter"
	case client.NoticeEventUnroutable:
		return "required tags without a worker"
	}
	return string(r.Event)
}

// scopeWords says which endpoints something is about.
func scopeWords(endpoint *string, of *map[string]string) string {
	switch {
	case endpoint != nil:
		return *endpoint
	case of != nil && len(*of) > 0:
		return strings.Join(notation.ListPairs(*of, "="), ", ")
	default:
		return "all endpoints"
	}
}

// channelWords says where notices go.
func channelWords(c client.NoticeChannel) string {
	switch {
	case c.To != nil:
		return "email to " + strings.Join(*c.To, ", ")
	case c.URLSecret != nil:
		return string(c.Kind) + ", URL from the secret " + *c.URLSecret
	default:
		return string(c.Kind) + " " + text(c.URL)
	}
}

// noticeWords describes a notice.
func noticeWords(n client.Notice) string {
	what := map[client.NoticeEvent]string{
		client.NoticeEventFailures: "failures in a row", client.NoticeEventLate: "late start", client.NoticeEventLost: "lost run",
		client.NoticeEventPaused: "pause", client.NoticeEventSuggestion: "suggestion",
		client.NoticeEventHostOpen: "open host", client.NoticeEventDeadLetter: "dead letter",
		client.NoticeEventUnroutable: "no worker with the required tags",
	}[n.Event]
	switch n.Kind {
	case client.NoticeKindOpened:
		return what + ": began"
	case client.NoticeKindRecovered:
		return what + ": over"
	case client.NoticeKindWithdrawn:
		return what + ": withdrawn" + withdrawnWords(n.Cause)
	case client.NoticeKindReminder:
		if n.Reminder != nil {
			return what + ": still open, reminder " + strconv.Itoa(int(*n.Reminder))
		}
		return what + ": still open"
	}
	return what
}

// withdrawnWords says why an episode ended that is not known to have recovered.
func withdrawnWords(why *client.NoticeCause) string {
	if why == nil {
		return ""
	}
	return map[client.NoticeCause]string{
		client.NoticeCauseRuleChanged: ", the rule was changed", client.NoticeCauseRuleDeleted: ", the rule was deleted",
		client.NoticeCauseEndpointArchived: ", the endpoint was archived",
	}[*why]
}

func noticeTone(s client.NoticeState) string {
	switch s {
	case client.NoticeStateDelivered:
		return "good"
	case client.NoticeStateDead:
		return "bad"
	case client.NoticeStateWaiting:
		return "live"
	case client.NoticeStateMuted:
	}
	return "quiet"
}
