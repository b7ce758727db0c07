package web

import (
	"net/url"
	"strconv"
	"strings"

	"rubato/client"
	"rubato/internal/auth"
	"rubato/internal/notation"
)

// ruleFields holds the field values of a rule's form.
type ruleFields struct {
	old                                   string // the name of the rule that is edited; empty: a new one
	version                               int64  // of that rule
	event, failures, late, remind         string
	endpoint, labels                      string
	kind, url, urlSecret, tokenSecret, to string
	severity, alertLabels                 string
	recovery, enabled                     bool
}

// newRule answers with the empty form of a rule.
func (v *pageRequest) newRule() error {
	if !v.who.May(auth.Write) {
		return forbidden()
	}
	return v.dialog("New rule", "notices", ruleDialog(ruleFields{
		event:    "failures",
		failures: "3",
		late:     "30s",
		kind:     "webhook",
		recovery: true,
		enabled:  true,
	}))
}

// editRule answers with the form of a rule as it stands.
func (v *pageRequest) editRule() error {
	if !v.who.May(auth.Write) {
		return forbidden()
	}
	var rule client.NoticeRule
	if err := v.get(ruleAPI(v.r.PathValue("name")), nil, &rule); err != nil {
		return err
	}
	return v.dialog("Edit "+rule.Name, "notices", ruleDialog(fieldsOfRule(rule)))
}

// ruleAPI returns the path of a rule in the API.
func ruleAPI(name string) string { return "/v1/notice-rules/" + url.PathEscape(name) }

func fieldsOfRule(r client.NoticeRule) ruleFields {
	f := ruleFields{
		old:         r.Name,
		version:     r.Version,
		event:       string(r.Event),
		failures:    "3",
		late:        "30s",
		remind:      lengthField(r.RemindMs),
		endpoint:    text(r.EndpointID),
		labels:      labelLines(r.Labels),
		kind:        string(r.Channel.Kind),
		url:         text(r.Channel.URL),
		urlSecret:   text(r.Channel.URLSecret),
		tokenSecret: text(r.Channel.TokenSecret),
		recovery:    r.Recovery,
		enabled:     r.Enabled,
	}
	if r.Failures != nil {
		f.failures = strconv.Itoa(int(*r.Failures))
	}
	if r.LateMs != nil {
		f.late = lengthField(*r.LateMs)
	}
	f.severity = text(r.Channel.Severity)
	if r.Channel.AlertLabels != nil {
		f.alertLabels = strings.Join(*r.Channel.AlertLabels, ", ")
	}
	if r.Channel.To != nil {
		f.to = strings.Join(*r.Channel.To, ", ")
	}
	return f
}

// labelLines writes labels as the forms of rules and windows take them.
func labelLines(of *map[string]string) string {
	if of == nil {
		return ""
	}
	return strings.Join(notation.ListPairs(*of, "="), "\n")
}

// question is the view model of a confirmation without fields.
type question struct {
	title string
	does  string // description of its effect
	verb  string // of the button that does it
	path  string // where the answer is sent
	gone  bool   // it cannot be taken back
}

// ask answers with the dialog of a question.
func (v *pageRequest) ask(q question) error { return v.dialog(q.title, "notices", confirmation(q)) }

// askDeleteRule asks whether a rule is to be deleted.
func (v *pageRequest) askDeleteRule() error {
	if !v.who.May(auth.Write) {
		return forbidden()
	}
	name := v.r.PathValue("name")
	return v.ask(question{
		title: "Delete the rule " + name,
		verb:  "Delete",
		gone:  true,
		path:  "/console/notices/rules/" + url.PathEscape(name) + "/delete",
		does:  "The rule sends no more notices, not even for open episodes. Sent notices stay in the list.",
	})
}
