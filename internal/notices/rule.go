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
	// MaxRules is how many rules a tenant can have: every program remembers all of them.
	MaxRules = 200

	maxFailures = 1000
	minLate     = time.Second
	maxLate     = 7 * 24 * time.Hour
	minRemind   = time.Minute
	maxRemind   = 30 * 24 * time.Hour
)

// Event is what a rule is about.
type Event string

// The events.
const (
	Failures   Event = "failures"   // so many runs in a row failed
	Late       Event = "late"       // a run started later than it should have by so much, or has not started yet
	Lost       Event = "lost"       // nobody knows what became of a run
	Paused     Event = "paused"     // the endpoint was paused, and no person asked for it
	Suggestion Event = "suggestion" // a suggestion of the planner waits for a person
)

// Events returns every event.
func Events() []Event { return []Event{Failures, Late, Lost, Paused, Suggestion} }

// Scope says which endpoints of a tenant something is about: one, those that have all of some labels, or, where it is empty, all.
type Scope struct {
	EndpointID endpoints.ID // zero: not one alone
	Labels     map[string]string
}

// Covers reports whether an endpoint belongs to the scope.
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

// Spec is what a user says of a rule.
type Spec struct {
	Event    Event
	Failures int           // in a row, of the event failures
	Late     time.Duration // by which a start is late, of the event late
	Scope    Scope
	Recovery bool          // tell of the end of an episode too
	Remind   time.Duration // how often an episode that goes on is told again; zero: never
	Enabled  bool
	Channel  Channel
}

// Rule says of what, and where, somebody is told.
type Rule struct {
	Spec

	ID        [16]byte
	TenantID  [16]byte
	Name      string
	Version   int64
	CreatedAt time.Time
	CreatedBy string // name of the API key
	UpdatedAt time.Time
	UpdatedBy string // name of the API key
}

// Threshold returns from which size on an event is one for the rule: failures in a row, milliseconds that a start is late, else 1.
func (s Spec) Threshold() int64 {
	switch s.Event {
	case Failures:
		return int64(s.Failures)
	case Late:
		return s.Late.Milliseconds()
	case Lost, Paused, Suggestion:
	}
	return 1
}

// SameEpisodes reports whether episodes of one spec are episodes of the other too.
func (s Spec) SameEpisodes(other Spec) bool {
	return s.Event == other.Event && s.Threshold() == other.Threshold() && s.Enabled == other.Enabled &&
		s.Scope.EndpointID == other.Scope.EndpointID && maps.Equal(s.Scope.Labels, other.Scope.Labels)
}

// Closes reports whether a receiver must be told the end of what it was told, recovered or not: a program keeps it, and a rule tells of ends.
func Closes(kind ChannelKind, recovery bool) bool { return recovery && kind.keepsState() }

// Closes reports whether the receiver of the rule must be told the end of what it was told, recovered or not.
func (s Spec) Closes() bool { return Closes(s.Channel.Kind, s.Recovery) }

// Leaves reports whether a receiver that must be told the end is another one in the other spec.
func (s Spec) Leaves(other Spec) bool { return s.Closes() && !s.Channel.sameReceiver(other.Channel) }

// Object returns the rule as the audit log names it.
func (r Rule) Object() auditlog.Object {
	return auditlog.Object{Kind: auditlog.NoticeRule, ID: r.Name}
}

// Redacted returns the rule as the audit log keeps it. A rule names secrets and holds none; what follows the path of an address may be one.
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

// complaints gathers what is wrong with an input.
type complaints []errs.Field

func (c *complaints) complain(field, code, message string) {
	*c = append(*c, errs.Field{Field: field, Code: code, Message: message})
}

// Check returns what is wrong with a rule of a name, as an [errs.Invalid] that names every bad field.
func (s Spec) Check(name string, by Permissions) error {
	var bad complaints
	checkName(&bad, name)
	s.checkEvent(&bad)
	checkScope(&bad, s.Scope)
	if s.Remind != 0 && (s.Remind < minRemind || s.Remind > maxRemind) {
		bad.complain("remindMs", "out_of_range", "must be 60000 (a minute) to 2592000000 (30 days), or 0 for no reminders")
	}
	if s.Channel.Kind == Alertmanager && !s.Recovery {
		bad.complain("recovery", "recovery_required", "must be true for an Alertmanager, which would show what it is told for ever otherwise")
	}
	s.Channel.check(&bad, by)
	return errs.InvalidFields(bad)
}

func (s Spec) checkEvent(bad *complaints) {
	if !slices.Contains(Events(), s.Event) {
		bad.complain("event", "unknown_value", "must be failures, late, lost, paused or suggestion")
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

// short reports whether a text is one line of at most so many characters.
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
