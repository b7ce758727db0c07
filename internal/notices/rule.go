package notices

import (
	"maps"
	"slices"
	"time"
	"unicode"
	"unicode/utf8"

	"rubato/internal/auditlog"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/secrets"
)

const (
	// MaxRules is the maximum number of rules per tenant. It is low, because every process caches
	// all rules.
	MaxRules = 200

	maxFailures = 1000
	minLate     = time.Second
	maxLate     = 7 * 24 * time.Hour
	minRemind   = time.Minute
	maxRemind   = 30 * 24 * time.Hour
)

// Event is the condition that a rule watches.
type Event string

// The events.
const (
	// Failures: a number of consecutive runs failed.
	Failures Event = "failures"
	// Late: a run started too late, or has not started yet.
	Late Event = "late"
	// Lost: the outcome of a run is unknown.
	Lost Event = "lost"
	// Paused: the endpoint was paused automatically.
	Paused Event = "paused"
	// Suggestion: a suggestion of the planner waits for a decision.
	Suggestion Event = "suggestion"
	// HostOpen: the circuit breaker of a host opened. One endpoint of the host stands for all of
	// them.
	HostOpen Event = "host_open"
	// DeadLetter: a run was given up and left a dead letter.
	DeadLetter Event = "dead_letter"
	// Unroutable: no active worker has had the required tags of the endpoint for 30 s.
	Unroutable Event = "unroutable"
)

// Events returns every event.
func Events() []Event {
	return []Event{Failures, Late, Lost, Paused, Suggestion, HostOpen, DeadLetter, Unroutable}
}

// Scope selects endpoints of a tenant: one by ID, or all that match the labels. An empty scope
// selects all.
type Scope struct {
	// EndpointID is zero for a scope of many endpoints.
	EndpointID endpoints.ID
	Labels     map[string]string
}

// Covers reports whether an endpoint is in the scope.
func (s Scope) Covers(id endpoints.ID, labels map[string]string) bool {
	if s.EndpointID != (endpoints.ID{}) && s.EndpointID != id {
		return false
	}
	for name, value := range s.Labels {
		if has, found := labels[name]; !found || has != value {
			return false
		}
	}
	return true
}

// Spec is the configuration of a rule.
type Spec struct {
	Event Event
	// Failures is the threshold of the event failures.
	Failures int
	// Late is the threshold of the event late.
	Late  time.Duration
	Scope Scope
	// Recovery also sends the end of an episode.
	Recovery bool
	// Remind is the interval of reminders during an episode; zero: none.
	Remind  time.Duration
	Enabled bool
	Channel Channel
}

// Rule is a stored rule.
type Rule struct {
	Spec

	ID        [16]byte
	TenantID  [16]byte
	Name      string
	Version   int64
	CreatedAt time.Time
	// CreatedBy is the name of the API key.
	CreatedBy string
	UpdatedAt time.Time
	// UpdatedBy is the name of the API key.
	UpdatedBy string
}

// Threshold returns the size from which an event opens an episode: consecutive failures,
// milliseconds of lateness, otherwise 1.
func (s Spec) Threshold() int64 {
	switch s.Event {
	case Failures:
		return int64(s.Failures)
	case Late:
		return s.Late.Milliseconds()
	case Lost, Paused, Suggestion, HostOpen, DeadLetter, Unroutable:
	}
	return 1
}

// SameEpisodes reports whether both specs open the same episodes, so that a change from one to the
// other keeps open ones.
func (s Spec) SameEpisodes(other Spec) bool {
	return s.Event == other.Event && s.Threshold() == other.Threshold() && s.Enabled == other.Enabled &&
		s.Scope.EndpointID == other.Scope.EndpointID && maps.Equal(s.Scope.Labels, other.Scope.Labels)
}

// Closes reports whether the receiver must get the end of every episode, recovered or not. That is
// so for a program that keeps state, if the rule sends recoveries.
func Closes(kind ChannelKind, recovery bool) bool { return recovery && kind.keepsState() }

// Closes is the function [Closes] for the channel of the rule.
func (s Spec) Closes() bool { return Closes(s.Channel.Kind, s.Recovery) }

// ChangesReceiver reports whether the other spec has a different receiver, and this one's must get
// the end of open episodes.
func (s Spec) ChangesReceiver(other Spec) bool {
	return s.Closes() && !s.Channel.sameReceiver(other.Channel)
}

// Object returns the reference to the rule in the audit log.
func (r Rule) Object() auditlog.Object {
	return auditlog.Object{Kind: auditlog.NoticeRule, ID: r.Name}
}

// Redacted returns the rule in its form for the audit log. Secrets are references only. The path of
// a URL is masked, because it may be a secret.
func (r Rule) Redacted() map[string]any {
	doc := map[string]any{
		"event": string(r.Event), "threshold": r.Threshold(), "recovery": r.Recovery, "remindMs": r.Remind.Milliseconds(), "enabled": r.Enabled,
		"channel": r.Channel.redacted(),
	}
	if r.Scope.EndpointID != (endpoints.ID{}) {
		doc["endpointId"] = r.Scope.EndpointID.String()
	}
	if len(r.Scope.Labels) > 0 {
		doc["labels"] = r.Scope.Labels
	}
	return doc
}

// complaints collects the faults of an input.
type complaints []errs.Field

func (c *complaints) complain(field, code, message string) {
	*c = append(*c, errs.Field{
		Field:   field,
		Code:    code,
		Message: message,
	})
}

// Check validates a rule and its name. The error is an [errs.Invalid] that names every bad field.
func (s Spec) Check(name string, by Permissions) error {
	var bad complaints
	checkName(&bad, name)
	s.checkEvent(&bad)
	checkScope(&bad, s.Scope)
	if s.Remind != 0 && (s.Remind < minRemind || s.Remind > maxRemind) {
		bad.complain("remindMs", "out_of_range", "must be 60000 (a minute) to 2592000000 (30 days), or 0 for no reminders")
	}
	if s.Channel.Kind == Alertmanager && !s.Recovery {
		bad.complain("recovery", "recovery_required", "must be true for an Alertmanager, because it would otherwise show the alert for ever")
	}
	s.Channel.check(&bad, by)
	return errs.InvalidFields(bad)
}

func (s Spec) checkEvent(bad *complaints) {
	if !slices.Contains(Events(), s.Event) {
		bad.complain("event", "unknown_value", "must be failures, late, lost, paused, suggestion, host_open, dead_letter or unroutable")
		return
	}
	switch {
	case s.Event == Failures && (s.Failures < 1 || s.Failures > maxFailures):
		bad.complain("failures", "out_of_range", "must be 1 to 1000 failures in a row for the event failures")
	case s.Event != Failures && s.Failures != 0:
		bad.complain("failures", "not_for_event", "must be left out unless the event is failures")
	}
	switch {
	case s.Event == Late && (s.Late < minLate || s.Late > maxLate):
		bad.complain("lateMs", "out_of_range", "must be 1000 to 604800000 (7 days) for the event late")
	case s.Event != Late && s.Late != 0:
		bad.complain("lateMs", "not_for_event", "must be left out unless the event is late")
	}
}

func checkName(bad *complaints, name string) {
	if !secrets.ValidName(name) {
		bad.complain("name", "name_invalid", "must be up to 100 lower-case letters, digits, dots, hyphens and underscores, the first a letter or a digit")
	}
}

func checkScope(bad *complaints, s Scope) {
	if s.EndpointID != (endpoints.ID{}) && len(s.Labels) > 0 {
		bad.complain("labels", "scope_order", "must be left out where endpointId names one endpoint")
	}
	*bad = append(*bad, endpoints.CheckLabels(s.Labels)...)
}

// short reports whether a text is one line with a maximum number of characters.
func short(text string, most int) bool {
	return utf8.ValidString(text) && utf8.RuneCountInString(text) <= most && !containsControl(text)
}

func containsControl(text string) bool {
	for _, r := range text {
		if unicode.IsControl(r) {
			return true
		}
	}
	return false
}
