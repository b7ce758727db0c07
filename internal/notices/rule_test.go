package notices_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/auditlog"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/notices"
)

// anywhere permits every URL but one and every address of a domain.
type anywhere struct{}

func (anywhere) CheckURL(url string) *errs.Field {
	if url == "http://inside.example/" {
		return &errs.Field{Code: "url_forbidden", Message: "must be outside"}
	}
	return nil
}

func (anywhere) CheckRecipient(address string) *errs.Field {
	return notices.JudgeRecipient(address, true, []string{"example.com"})
}

// good returns a valid rule, changed by edit.
func good(edit func(*notices.Spec)) notices.Spec {
	s := notices.Spec{
		Event: notices.Failures, Failures: 3, Recovery: true, Enabled: true,
		Channel: notices.Channel{Kind: notices.Webhook, URL: "https://hooks.example.com/in"},
	}
	if edit != nil {
		edit(&s)
	}
	return s
}

// complaints returns the bad fields of an error, as "field: code".
func complaints(t *testing.T, err error) []string {
	t.Helper()
	list := []string{}
	for _, f := range errs.FieldsOf(err) {
		require.NotEmpty(t, f.Message, "%s does not say what would be right", f.Field)
		list = append(list, f.Field+": "+f.Code)
	}
	if err != nil {
		require.Equal(t, errs.Invalid, errs.CodeOf(err))
	}
	return list
}

func labels(n int) map[string]string {
	list := map[string]string{}
	for i := range n {
		list[fmt.Sprintf("l%d", i)] = ""
	}
	return list
}

func recipients(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("a%d@example.com", i)
	}
	return list
}

func TestARuleIsCheckedFieldByField(t *testing.T) {
	t.Parallel()
	late := func(d time.Duration) func(*notices.Spec) {
		return func(s *notices.Spec) { s.Event, s.Failures, s.Late = notices.Late, 0, d }
	}
	to := func(c notices.Channel) func(*notices.Spec) { return func(s *notices.Spec) { s.Channel = c } }
	mail := func(addresses ...string) func(*notices.Spec) {
		return to(notices.Channel{Kind: notices.Email, To: addresses})
	}
	alerts := func(severity string, labels ...string) func(*notices.Spec) {
		return func(s *notices.Spec) {
			s.Channel.Kind, s.Channel.Severity, s.Channel.AlertLabels = notices.Alertmanager, severity, labels
		}
	}
	for name, c := range map[string]struct {
		edit func(*notices.Spec)
		bad  []string
	}{
		"Good":                    {nil, nil},
		"OneFailure":              {func(s *notices.Spec) { s.Failures = 1 }, nil},
		"MostFailures":            {func(s *notices.Spec) { s.Failures = 1000 }, nil},
		"NoFailures":              {func(s *notices.Spec) { s.Failures = 0 }, []string{"failures: out_of_range"}},
		"TooManyFailures":         {func(s *notices.Spec) { s.Failures = 1001 }, []string{"failures: out_of_range"}},
		"FailuresOfAnother":       {func(s *notices.Spec) { s.Event = notices.Lost }, []string{"failures: not_for_event"}},
		"ShortestLate":            {late(time.Second), nil},
		"LongestLate":             {late(7 * 24 * time.Hour), nil},
		"TooShortLate":            {late(time.Second - time.Millisecond), []string{"lateMs: out_of_range"}},
		"TooLongLate":             {late(7*24*time.Hour + time.Millisecond), []string{"lateMs: out_of_range"}},
		"LateOfAnother":           {func(s *notices.Spec) { s.Late = time.Minute }, []string{"lateMs: not_for_event"}},
		"UnknownEvent":            {func(s *notices.Spec) { s.Event = "noise" }, []string{"event: unknown_value"}},
		"ShortestReminders":       {func(s *notices.Spec) { s.Remind = time.Minute }, nil},
		"LongestReminders":        {func(s *notices.Spec) { s.Remind = 30 * 24 * time.Hour }, nil},
		"TooFrequentReminders":    {func(s *notices.Spec) { s.Remind = time.Minute - time.Millisecond }, []string{"remindMs: out_of_range"}},
		"TooRareReminders":        {func(s *notices.Spec) { s.Remind = 30*24*time.Hour + time.Millisecond }, []string{"remindMs: out_of_range"}},
		"RemindersBackwards":      {func(s *notices.Spec) { s.Remind = -time.Hour }, []string{"remindMs: out_of_range"}},
		"Labels":                  {func(s *notices.Spec) { s.Scope.Labels = labels(32) }, nil},
		"TooManyLabels":           {func(s *notices.Spec) { s.Scope.Labels = labels(33) }, []string{"labels: too_many"}},
		"NamelessLabel":           {func(s *notices.Spec) { s.Scope.Labels = map[string]string{"": "x"} }, []string{"labels.: required"}},
		"LongLabelName":           {func(s *notices.Spec) { s.Scope.Labels = map[string]string{strings.Repeat("ä", 64): ""} }, []string{"labels." + strings.Repeat("ä", 64) + ": too_long"}},
		"LongestLabelName":        {func(s *notices.Spec) { s.Scope.Labels = map[string]string{strings.Repeat("ä", 63): ""} }, nil},
		"BlankLabel":              {func(s *notices.Spec) { s.Scope.Labels = map[string]string{"a": " "} }, []string{"labels.a: required"}},
		"TwoBadLabels":            {func(s *notices.Spec) { s.Scope.Labels = map[string]string{"a": "\n1", "b": "\n2"} }, []string{"labels.a: invalid_characters", "labels.b: invalid_characters"}},
		"LongLabel":               {func(s *notices.Spec) { s.Scope.Labels = map[string]string{"a": strings.Repeat("ä", 256)} }, []string{"labels.a: too_long"}},
		"LongestLabel":            {func(s *notices.Spec) { s.Scope.Labels = map[string]string{"a": strings.Repeat("ä", 255)} }, nil},
		"LabelOfTwoLines":         {func(s *notices.Spec) { s.Scope.Labels = map[string]string{"a": "b\nc"} }, []string{"labels.a: invalid_characters"}},
		"BrokenLabel":             {func(s *notices.Spec) { s.Scope.Labels = map[string]string{"a": "\xff"} }, []string{"labels.a: invalid_characters"}},
		"LabelsOfOneEndpoint":     {func(s *notices.Spec) { s.Scope = notices.Scope{EndpointID: endpoints.ID{1}, Labels: labels(1)} }, []string{"labels: scope_order"}},
		"UnknownChannel":          {to(notices.Channel{Kind: "pager"}), []string{"channel.kind: unknown_value"}},
		"NoURL":                   {to(notices.Channel{Kind: notices.Slack}), []string{"channel.url: required"}},
		"URLInASecret":            {to(notices.Channel{Kind: notices.Slack, URLSecret: "slack-url"}), nil},
		"URLTwice":                {to(notices.Channel{Kind: notices.Slack, URL: "https://a.example/", URLSecret: "u"}), []string{"channel.urlSecret: url_twice"}},
		"ForbiddenURL":            {to(notices.Channel{Kind: notices.Webhook, URL: "http://inside.example/"}), []string{"channel.url: url_forbidden"}},
		"BadSecretNames":          {to(notices.Channel{Kind: notices.Slack, URLSecret: "A B"}), []string{"channel.urlSecret: name_invalid"}},
		"BadTokenName":            {to(notices.Channel{Kind: notices.Slack, URL: "https://a.example/", TokenSecret: "-"}), []string{"channel.tokenSecret: name_invalid"}},
		"RecipientsOfAWebhook":    {func(s *notices.Spec) { s.Channel.To = recipients(1) }, []string{"channel.to: not_for_channel"}},
		"Alertmanager":            {func(s *notices.Spec) { s.Channel.Kind = notices.Alertmanager }, nil},
		"AlertmanagerWithoutEnds": {func(s *notices.Spec) { s.Channel.Kind, s.Recovery = notices.Alertmanager, false }, []string{"recovery: recovery_required"}},
		"Alerts":                  {alerts("critical", "team", "app.kubernetes.io/name"), nil},
		"AlertsWithTheirSeverity": {alerts("", "severity"), nil},
		"SeverityOfTwoWords":      {alerts("very bad"), []string{"channel.severity: severity_invalid"}},
		"TooManyAlertLabels":      {alerts("", strings.Split(strings.Repeat("a,", 16)+"a", ",")...), []string{"channel.alertLabels: too_many"}},
		"BlankAlertLabel":         {alerts("", " "), []string{"channel.alertLabels[0]: name_invalid"}},
		"AlertLabelTwice":         {alerts("", "a.b", "a-b"), []string{"channel.alertLabels[1]: label_taken"}},
		"AlertLabelOfOurs":        {alerts("page", "alertname", "severity"), []string{"channel.alertLabels[0]: label_taken", "channel.alertLabels[1]: label_taken"}},
		"AlertsOfAWebhook": {
			func(s *notices.Spec) { s.Channel.Severity, s.Channel.AlertLabels = "page", []string{"team"} },
			[]string{"channel.severity: not_for_channel", "channel.alertLabels: not_for_channel"},
		},
		"Mail":               {mail(recipients(20)...), nil},
		"MailToNobody":       {mail(), []string{"channel.to: required"}},
		"MailToTooMany":      {mail(recipients(21)...), []string{"channel.to: too_many"}},
		"MailWithAName":      {mail("On call <oncall@example.com>"), []string{"channel.to[0]: address_invalid"}},
		"MailWithAHeader":    {mail("oncall@example.com\r\nBcc: x@example.com"), []string{"channel.to[0]: address_invalid"}},
		"MailToNoAddress":    {mail("oncall"), []string{"channel.to[0]: address_invalid"}},
		"MailInOtherLetters": {mail("ünter@example.com"), []string{"channel.to[0]: address_invalid"}},
		"MailToNoneOfTwo":    {mail("oncall", "a@example.com", "x@elsewhere.example"), []string{"channel.to[0]: address_invalid", "channel.to[2]: recipient_forbidden"}},
		"MailElsewhere":      {mail("a@example.com", "b@elsewhere.example"), []string{"channel.to[1]: recipient_forbidden"}},
		"MailWithAURL": {
			to(notices.Channel{Kind: notices.Email, To: recipients(1), URL: "https://a.example/"}),
			[]string{"channel.url: not_for_channel"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.ElementsMatch(t, c.bad, complaints(t, good(c.edit).Check("shop-failures", anywhere{})))
		})
	}
}

// TestEveryBadFieldIsNamedAtOnce has as many bad fields as one rule can have.
func TestEveryBadFieldIsNamedAtOnce(t *testing.T) {
	t.Parallel()
	s := notices.Spec{
		Event: notices.Failures, Failures: -1, Late: time.Minute, Remind: time.Second,
		Scope:   notices.Scope{EndpointID: endpoints.ID{1}, Labels: map[string]string{"": ""}},
		Channel: notices.Channel{Kind: notices.Alertmanager, TokenSecret: "!", To: []string{"x"}},
	}
	require.ElementsMatch(t, []string{
		"name: name_invalid", "failures: out_of_range", "lateMs: not_for_event", "labels: scope_order", "labels.: required",
		"remindMs: out_of_range", "recovery: recovery_required", "channel.url: required", "channel.tokenSecret: name_invalid",
		"channel.to: not_for_channel",
	}, complaints(t, s.Check("No Name", anywhere{})))
}

func TestRecipientsMustBeAllowedByTheOperator(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		address string
		mail    bool
		domains []string
		code    string
	}{
		"Anywhere":   {"a@b.example", true, nil, ""},
		"Allowed":    {"a@B.example", true, []string{"a.example", "b.example"}, ""},
		"Elsewhere":  {"a@c.example", true, []string{"b.example"}, "recipient_forbidden"},
		"Below":      {"a@x.b.example", true, []string{"b.example"}, "recipient_forbidden"},
		"NoMail":     {"a@b.example", false, nil, "mail_unavailable"},
		"LastDomain": {`"a@c.example"@b.example`, true, []string{"b.example"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := notices.JudgeRecipient(c.address, c.mail, c.domains)
			if c.code == "" {
				require.Nil(t, f)
				return
			}
			require.NotNil(t, f)
			require.Equal(t, c.code, f.Code)
		})
	}
}

func TestScopeMatchesAllLabels(t *testing.T) {
	t.Parallel()
	id := endpoints.ID{1}
	has := map[string]string{"team": "shop", "env": "prod", "empty": ""}
	for name, c := range map[string]struct {
		scope  notices.Scope
		covers bool
	}{
		"Everything":   {notices.Scope{}, true},
		"This":         {notices.Scope{EndpointID: id}, true},
		"Another":      {notices.Scope{EndpointID: endpoints.ID{2}}, false},
		"OneLabel":     {notices.Scope{Labels: map[string]string{"team": "shop"}}, true},
		"BothLabels":   {notices.Scope{Labels: map[string]string{"team": "shop", "env": "prod"}}, true},
		"OneOfTwo":     {notices.Scope{Labels: map[string]string{"team": "shop", "env": "test"}}, false},
		"EmptyValue":   {notices.Scope{Labels: map[string]string{"empty": ""}}, true},
		"MissingLabel": {notices.Scope{Labels: map[string]string{"missing": ""}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.covers, c.scope.Covers(id, has))
		})
	}
}

// TestOnlyAChangedConditionEndsEpisodes: a change of receivers or reminders keeps open episodes,
// because it does not change the condition that they are about.
func TestOnlyAChangedConditionEndsEpisodes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edit func(*notices.Spec)
		same bool
	}{
		"Channel":   {func(s *notices.Spec) { s.Channel.URL = "https://other.example/" }, true},
		"Reminders": {func(s *notices.Spec) { s.Remind = time.Hour }, true},
		"Recovery":  {func(s *notices.Spec) { s.Recovery = false }, true},
		"Threshold": {func(s *notices.Spec) { s.Failures = 4 }, false},
		"Event":     {func(s *notices.Spec) { s.Event, s.Failures = notices.Paused, 0 }, false},
		"Off":       {func(s *notices.Spec) { s.Enabled = false }, false},
		"Endpoint":  {func(s *notices.Spec) { s.Scope.EndpointID = endpoints.ID{1} }, false},
		"Labels":    {func(s *notices.Spec) { s.Scope.Labels = labels(1) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.same, good(nil).SameEpisodes(good(c.edit)))
		})
	}
}

// TestTheLogOfChangesHoldsNoSecretOfARule: the audit log omits the path of a URL, because it may be
// secret.
func TestTheLogOfChangesHoldsNoSecretOfARule(t *testing.T) {
	t.Parallel()
	r := notices.Rule{Name: "r", Spec: good(func(s *notices.Spec) {
		s.Channel.URL, s.Channel.TokenSecret = "https://user:pass@hooks.example.com/services/CANARY?token=CANARY", "token"
	})}
	text := fmt.Sprint(r.Redacted())
	require.Contains(t, text, "https://hooks.example.com")
	require.Contains(t, text, "tokenSecret:token", "the name of one is none")
	require.NotContains(t, text, "CANARY")
	require.NotContains(t, text, "pass")
}

// TestAuditLogShowsAChangedReceiver changes the path of a URL, which may be secret. The audit log
// records the change without the path.
func TestAuditLogShowsAChangedReceiver(t *testing.T) {
	t.Parallel()
	at := func(url string) map[string]any {
		return notices.Rule{Spec: good(func(s *notices.Spec) { s.Channel.URL = url })}.Redacted()
	}
	before, after := auditlog.Diff(at("https://hooks.example.com/a?b"), at("https://hooks.example.com/c"))
	for _, side := range []map[string]any{before, after} {
		raw, err := json.Marshal(side)
		require.NoError(t, err)
		require.JSONEq(t, `{"channel":{"kind":"webhook","url":"https://hooks.example.com/***"}}`, string(raw))
	}
	before, _ = auditlog.Diff(at("https://hooks.example.com/a"), at("https://hooks.example.com/a"))
	require.Empty(t, before)
	raw, err := json.Marshal(at("https://hooks.example.com"))
	require.NoError(t, err)
	require.Contains(t, string(raw), `"url":"https://hooks.example.com"`)
}

func TestAWindowIsCheckedFieldByField(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		edit func(*notices.WindowSpec)
		bad  []string
	}{
		"Good":      {func(*notices.WindowSpec) {}, nil},
		"Longest":   {func(s *notices.WindowSpec) { s.EndsAt = start.Add(366 * 24 * time.Hour) }, nil},
		"TooLong":   {func(s *notices.WindowSpec) { s.EndsAt = start.Add(366*24*time.Hour + 1) }, []string{"endsAt: out_of_range"}},
		"Empty":     {func(s *notices.WindowSpec) { s.EndsAt = start }, []string{"endsAt: window_order"}},
		"Backwards": {func(s *notices.WindowSpec) { s.EndsAt = start.Add(-1) }, []string{"endsAt: window_order"}},
		"NoTimes":   {func(s *notices.WindowSpec) { s.StartsAt, s.EndsAt = time.Time{}, time.Time{} }, []string{"startsAt: out_of_range", "endsAt: window_order"}},
		"FarOff":    {func(s *notices.WindowSpec) { s.StartsAt, s.EndsAt = start.AddDate(174, 0, 0), start.AddDate(174, 0, 1) }, []string{"startsAt: out_of_range"}},
		"Reason":    {func(s *notices.WindowSpec) { s.Reason = strings.Repeat("x", 500) }, nil},
		"TooMuch":   {func(s *notices.WindowSpec) { s.Reason = strings.Repeat("x", 501) }, []string{"reason: too_long"}},
		"TwoLines":  {func(s *notices.WindowSpec) { s.Reason = "a\nb" }, []string{"reason: too_long"}},
		"Scope":     {func(s *notices.WindowSpec) { s.Scope.Labels = labels(33) }, []string{"labels: too_many"}},
		"Label":     {func(s *notices.WindowSpec) { s.Scope.Labels = map[string]string{strings.Repeat("x", 64): ""} }, []string{"labels." + strings.Repeat("x", 64) + ": too_long"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := notices.WindowSpec{StartsAt: start, EndsAt: start.Add(time.Hour)}
			c.edit(&s)
			require.ElementsMatch(t, c.bad, complaints(t, s.Check("upgrade")))
		})
	}
	require.Equal(t, []string{"name: name_invalid"}, complaints(t, notices.WindowSpec{StartsAt: start, EndsAt: start.Add(1)}.Check("")))
}
