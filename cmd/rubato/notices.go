package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"rubato/client"
)

// noticesCmd is `rubato notices`.
type noticesCmd struct {
	Set     noticesSetCmd     `cmd:"" help:"Create or replace a notice rule. For example: rubato notices set shop --failures 3 --label team=shop --channel slack --url-secret slack-url"`
	Get     noticesGetCmd     `cmd:"" help:"Print one notice rule."`
	Rules   noticesRulesCmd   `cmd:"" help:"Print notice rules, sorted by name."`
	Delete  noticesDeleteCmd  `cmd:"" help:"Delete a notice rule."`
	Test    noticesTestCmd    `cmd:"" help:"Send a test notice through the channel of a rule, and print the result."`
	List    noticesListCmd    `cmd:"" help:"Print notices and their delivery state, newest first."`
	Retry   noticesRetryCmd   `cmd:"" help:"Retry the delivery of a notice that was given up."`
	Windows noticesWindowsCmd `cmd:"" help:"Print maintenance windows, sorted by name."`
	Window  noticesWindowCmd  `cmd:"" help:"Create or replace a maintenance window, which mutes the notices of its endpoints."`
	Close   noticesCloseCmd   `cmd:"" help:"Delete a maintenance window. Held notices of problems that persist are sent now."`
}

type (
	noticesSetCmd struct {
		Name string `arg:"" help:"Name: lower-case letters, digits, dots, hyphens and underscores."`
		File string `short:"f" placeholder:"FILE" help:"JSON file with the rule, or - for standard input. Excludes every other flag."`

		Event    string        `placeholder:"EVENT" help:"Event: failures, late, lost, paused, suggestion, host_open, dead_letter or unroutable. The flags --failures and --late imply theirs."`
		Failures int           `placeholder:"N" help:"Number of consecutive failures that trigger a notice."`
		Late     time.Duration `placeholder:"DURATION" help:"Lateness of a start that triggers a notice, such as 30s."`
		Endpoint string        `help:"Apply the rule to one endpoint, given as id or key."`
		Label    []string      `placeholder:"NAME=VALUE" sep:"none" help:"Apply the rule to endpoints with this label; may be repeated."`

		NoRecovery bool          `help:"Send no recovery notice."`
		Remind     time.Duration `placeholder:"DURATION" help:"Interval of reminders while the problem persists, such as 1h."`
		Disabled   bool          `help:"Store the rule without using it."`

		Channel     string   `enum:",webhook,slack,email,alertmanager" default:"" placeholder:"KIND" help:"Channel: webhook, slack, email or alertmanager."`
		ChannelURL  string   `name:"url" placeholder:"URL" help:"URL of the channel; for an Alertmanager its base URL."`
		URLSecret   string   `placeholder:"NAME" help:"Name of the secret that holds the URL."`
		TokenSecret string   `placeholder:"NAME" help:"Name of the secret that is sent as a bearer token."`
		To          []string `placeholder:"ADDRESS" help:"Mail recipient; may be repeated."`
		Severity    string   `placeholder:"WORD" help:"Label severity of alerts for an Alertmanager, such as critical."`
		AlertLabel  []string `placeholder:"NAME" sep:"none" help:"Endpoint label to copy to alerts for an Alertmanager; may be repeated."`
	}
	noticesGetCmd struct {
		serverFlag

		Name string `arg:"" help:"Name."`
	}
	noticesRulesCmd struct {
		serverFlag

		Limit  int32  `default:"50" help:"Maximum number of results."`
		Cursor string `help:"Cursor of the next page, from the previous list."`
	}
	noticesDeleteCmd struct {
		serverFlag

		Name string `arg:"" help:"Name."`
	}
	noticesTestCmd struct {
		serverFlag

		Name string `arg:"" help:"Name of the rule."`
	}
	noticesListCmd struct {
		serverFlag

		Endpoint string `help:"Filter by endpoint, given as id or key."`
		Rule     string `placeholder:"NAME" help:"Filter by rule."`
		State    string `enum:",waiting,delivered,dead,muted" default:"" placeholder:"STATE" help:"Filter by state: waiting, delivered, dead or muted."`
		Limit    int32  `default:"50" help:"Maximum number of results."`
		Cursor   string `help:"Cursor of the next page, from the previous list."`
	}
	noticesRetryCmd struct {
		serverFlag

		Notice string `arg:"" help:"Notice id (ntc_...)."`
	}
	noticesWindowsCmd struct {
		serverFlag

		Limit  int32  `default:"50" help:"Maximum number of results."`
		Cursor string `help:"Cursor of the next page, from the previous list."`
	}
	noticesWindowCmd struct {
		serverFlag

		Name     string        `arg:"" help:"Name."`
		From     time.Time     `placeholder:"TIME" help:"Start, such as 2026-12-01T22:00:00Z. Default: now."`
		Until    time.Time     `placeholder:"TIME" help:"End."`
		For      time.Duration `placeholder:"DURATION" help:"Duration instead of --until, such as 2h."`
		Endpoint string        `help:"Apply the window to one endpoint, given as id or key."`
		Label    []string      `placeholder:"NAME=VALUE" sep:"none" help:"Apply the window to endpoints with this label; may be repeated."`
		Reason   string        `help:"Reason, shown to other users."`
	}
	noticesCloseCmd struct {
		serverFlag

		Name string `arg:"" help:"Name."`
	}
)

// Run creates or replaces a rule.
func (cmd *noticesSetCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	endpoint, err := r.endpointNamed(ctx, cmd.Endpoint)
	if err != nil {
		return err
	}
	fields, err := cmd.fields(endpoint)
	if err != nil {
		return err
	}
	body, err := s.objectFrom("rule", cmd.File, fields)
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.PutNoticeRuleWithBodyWithResponse(ctx, cmd.Name, nil, "application/json", bytes.NewReader(body)))
	if err != nil {
		return err
	}
	return s.printNoticeRule(raw)
}

// fields returns the given flags by their API names. The endpoint is the id for --endpoint, or nil.
func (cmd *noticesSetCmd) fields(endpoint *string) (map[string]any, error) {
	fields, err := scopeFields(endpoint, cmd.Label)
	if err != nil {
		return nil, err
	}
	add := func(to map[string]any, name string, set bool, value any) {
		if set {
			to[name] = value
		}
	}
	event := cmd.Event
	if event == "" && cmd.Failures > 0 {
		event = "failures"
	}
	if event == "" && cmd.Late > 0 {
		event = "late"
	}
	add(fields, "event", event != "", event)
	add(fields, "failures", cmd.Failures != 0, cmd.Failures)
	add(fields, "lateMs", cmd.Late != 0, cmd.Late.Milliseconds())
	add(fields, "remindMs", cmd.Remind != 0, cmd.Remind.Milliseconds())
	add(fields, "recovery", cmd.NoRecovery, false)
	add(fields, "enabled", cmd.Disabled, false)
	channel := map[string]any{}
	add(channel, "kind", cmd.Channel != "", cmd.Channel)
	add(channel, "url", cmd.ChannelURL != "", cmd.ChannelURL)
	add(channel, "urlSecret", cmd.URLSecret != "", cmd.URLSecret)
	add(channel, "tokenSecret", cmd.TokenSecret != "", cmd.TokenSecret)
	add(channel, "to", len(cmd.To) > 0, cmd.To)
	add(channel, "severity", cmd.Severity != "", cmd.Severity)
	add(channel, "alertLabels", len(cmd.AlertLabel) > 0, cmd.AlertLabel)
	add(fields, "channel", len(channel) > 0, channel)
	return fields, nil
}

// scopeFields returns the API fields for the scope of a rule or window: an endpoint, labels, or
// all.
func scopeFields(endpoint *string, labels []string) (map[string]any, error) {
	fields := map[string]any{}
	if endpoint != nil {
		fields["endpointId"] = *endpoint
	}
	return fields, pairs(fields, "labels", labels, '=')
}

// Run prints a rule.
func (cmd *noticesGetCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.GetNoticeRuleWithResponse(ctx, cmd.Name))
	if err != nil {
		return err
	}
	return s.printNoticeRule(raw)
}

func (s *session) printNoticeRule(raw json.RawMessage) error {
	return show(s, raw, func(x client.NoticeRule) error {
		remind := "never"
		if x.RemindMs > 0 {
			remind = "every " + milliseconds(x.RemindMs)
		}
		return s.facts([][2]string{
			{"name", x.Name},
			{"event", noticeEvent(x)},
			{"endpoints", scopeWords(x.EndpointID, x.Labels)},
			{"to", channelWords(x.Channel)},
			{"recovery", strconv.FormatBool(x.Recovery)},
			{"reminders", remind},
			{"enabled", strconv.FormatBool(x.Enabled)},
			{"updated", instant(&x.UpdatedAt)},
			{"by", x.UpdatedBy},
		})
	})
}

func noticeEvent(r client.NoticeRule) string {
	switch {
	case r.Failures != nil:
		return strconv.Itoa(int(*r.Failures)) + " failures in a row"
	case r.LateMs != nil:
		return "starts late by " + milliseconds(*r.LateMs)
	default:
		return string(r.Event)
	}
}

// scopeWords formats the scope of a rule or window, with labels as in flags.
func scopeWords(endpoint *string, labels *map[string]string) string {
	switch {
	case endpoint != nil:
		return *endpoint
	case labels != nil && len(*labels) > 0:
		return labelWords(*labels)
	default:
		return "all"
	}
}

func channelWords(c client.NoticeChannel) string {
	words := string(c.Kind)
	switch {
	case c.URL != nil:
		words += " " + *c.URL
	case c.URLSecret != nil:
		words += " (secret " + *c.URLSecret + ")"
	case c.To != nil:
		words += " " + strings.Join(*c.To, ", ")
	}
	return words
}

// Run lists rules.
func (cmd *noticesRulesCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.ListNoticeRulesWithResponse(ctx, &client.ListNoticeRulesParams{Limit: &cmd.Limit, Cursor: given(cmd.Cursor)}))
	if err != nil {
		return err
	}
	return list(s, raw, []string{"NAME", "EVENT", "ENDPOINTS", "TO", "ENABLED"}, func(x client.NoticeRule) []string {
		return []string{x.Name, noticeEvent(x), scopeWords(x.EndpointID, x.Labels), channelWords(x.Channel), strconv.FormatBool(x.Enabled)}
	})
}

// Run deletes a rule.
func (cmd *noticesDeleteCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	if _, err := r.read(r.api.DeleteNoticeRuleWithResponse(ctx, cmd.Name, nil)); err != nil {
		return err
	}
	return s.deleted(cmd.Name)
}

// Run sends a test notice. It returns an error if the delivery failed.
func (cmd *noticesTestCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.TestNoticeRuleWithResponse(ctx, cmd.Name))
	if err != nil {
		return err
	}
	var x client.NoticeTestResult
	if err := decode(raw, &x); err != nil {
		return err
	}
	switch {
	case s.json:
		err = s.print(raw)
	case x.Delivered:
		if err = s.say("delivered, after %s", milliseconds(x.DurationMs)); err == nil && text(x.Error) != "" {
			err = s.say("%s", text(x.Error))
		}
	default:
		err = s.say("not delivered: %s", text(x.Error))
	}
	if err == nil && !x.Delivered {
		return silentError{}
	}
	return err
}

// Run lists notices.
func (cmd *noticesListCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	endpoint, err := r.endpointNamed(ctx, cmd.Endpoint)
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.ListNoticesWithResponse(ctx, &client.ListNoticesParams{
		EndpointID: endpoint,
		Rule:       given(cmd.Rule),
		State:      given(client.NoticeState(cmd.State)),
		Limit:      &cmd.Limit,
		Cursor:     given(cmd.Cursor),
	}))
	if err != nil {
		return err
	}
	return list(s, raw, []string{"ID", "AT", "RULE", "WHAT", "ENDPOINT", "STATE", "ATTEMPTS", "ERROR"}, func(x client.Notice) []string {
		return []string{
			x.ID, instant(&x.CreatedAt), x.Rule, string(x.Event) + " " + string(x.Kind), x.EndpointName, string(x.State),
			strconv.Itoa(int(x.Attempts)), dash(text(x.Error)),
		}
	})
}

// Run queues a notice for delivery again.
func (cmd *noticesRetryCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.RetryNoticeWithResponse(ctx, cmd.Notice))
	if err != nil {
		return err
	}
	if s.json {
		return s.print(raw)
	}
	return s.say("%s is queued for delivery", cmd.Notice)
}
