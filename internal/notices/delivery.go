package notices

import (
	"time"

	"rubato/internal/endpoints"
)

// Lock is the duration of a claim on a notice. It is longer than an attempt to send, so that no
// second process sends it meanwhile.
const Lock = time.Minute

const (
	// MaxAttempts is the number of attempts before a notice becomes a dead letter, after about two
	// hours.
	MaxAttempts = 14

	firstWait = 5 * time.Second
	maxWait   = 15 * time.Minute
	// maxAsked is the maximum wait that a receiver may request by Retry-After.
	maxAsked = time.Hour
	// maxHold bounds the wait of a notice that a maintenance window holds back. It is rechecked
	// that often, because a change of the window can race with the hold, and because a change of
	// the endpoint's labels releases nothing.
	maxHold = 15 * time.Minute

	// Turn is the recheck interval of a notice that waits for an earlier one.
	Turn = 5 * time.Second
)

// Delivery is a claimed notice with its content and its destination.
type Delivery struct {
	Notice

	TenantID [16]byte
	RuleID   [16]byte
	// Labels are those of the endpoint when the episode opened.
	Labels map[string]string
	// Spec is the endpoint's; zero: the notice is about no endpoint.
	Spec endpoints.Spec
	// Host is the host and port of the endpoint's URL; empty: the notice is about no endpoint.
	Host string
	// PublicURL is the base URL of the console, without a trailing slash; empty: not configured.
	PublicURL string
	// Token is the fencing token of the claim.
	Token   int64
	Channel Channel
	Remind  time.Duration
	// Fault is the error if the stored notice is unreadable; nil: none.
	Fault error
	// RuleGone means that the rule was deleted, so the destination is unknown.
	RuleGone bool
	// BeginUnsent means that no notice of the episode's opening was sent.
	BeginUnsent bool
	// EarlierEndQueued means that the end of an earlier episode is still queued for the same
	// destination.
	EarlierEndQueued bool
	// Overtaken means that this notice ends an episode, and that the receiver may already know of
	// the next one.
	Overtaken bool
	// HeldUntil is the end of the maintenance window that holds the notice back; zero: none.
	HeldUntil time.Time
	// SecretsVersion is the version of the tenant's secrets.
	SecretsVersion int64
	// Now is the database time of the claim.
	Now  time.Time
	Test bool
}

// Link returns the endpoint's page in the console, or the page of notices for a test; empty without
// PublicURL.
func (p *Delivery) Link() string {
	switch {
	case p.PublicURL == "":
		return ""
	case p.Test:
		return p.PublicURL + "/console/notices"
	}
	return p.PublicURL + "/console/endpoints/" + p.EndpointID.String()
}

// RunLink returns the run's page in the console; empty without a run or without PublicURL.
func (p *Delivery) RunLink() string {
	if p.PublicURL == "" || p.Detail.RunID == "" {
		return ""
	}
	return p.PublicURL + "/console/runs/" + p.Detail.RunID
}

// Capacity bounds the notices of one claim, in total, per rule and per tenant.
type Capacity struct {
	// Limit is the maximum number of notices.
	Limit int
	// PerRule is the maximum number per rule.
	PerRule int
	// PerTenant is the maximum number per tenant.
	PerTenant int
	// FullRules are at their limit and get no more notices.
	FullRules [][16]byte
	// FullTenants are at their limit and get no more notices.
	FullTenants [][16]byte
}

// Result is the result of an attempt to deliver a notice.
type Result struct {
	// StatusCode is that of the answer; zero: none.
	StatusCode int
	// Error is empty if the receiver accepted the notice.
	Error string
	// Note describes the recipients that got no message although others did; empty: none.
	Note string
	// Asked is the wait that the receiver requested by Retry-After; zero: none.
	Asked time.Duration
	Took  time.Duration
}

// Delivered reports whether the receiver accepted the notice.
func (r Result) Delivered() bool { return r.Error == "" }

// Wait returns the backoff after a number of failed attempts: exponential, at most 15 minutes.
// share, in [0, 1), adds jitter, so that failures of one moment spread. asked is the receiver's
// requested wait.
func Wait(attempts int, asked time.Duration, share float64) time.Duration {
	wait := firstWait << min(max(attempts-1, 0), 10)
	wait = min(wait, maxWait)
	wait += time.Duration(share * float64(wait) / 5)
	return max(wait, min(asked, maxAsked))
}

// Verdict is the decision about a claimed notice before it is sent.
type Verdict string

// The verdicts.
const (
	Send Verdict = "send"
	// Mute drops the notice.
	Mute Verdict = "mute"
	// Postpone waits for the end of the maintenance window.
	Postpone Verdict = "postpone"
	// Queue waits until the earlier notice was sent.
	Queue Verdict = "queue"
	// GiveUp makes the notice a dead letter.
	GiveUp Verdict = "give up"
)

// Judge returns the decision about a claimed notice, and the reason if it is not sent.
func (p *Delivery) Judge() (Verdict, string) {
	switch {
	case p.RuleGone:
		return Mute, "the rule is gone"
	case p.Fault != nil:
		return GiveUp, p.Fault.Error()
	case p.Overtaken && p.isAlert():
		return Mute, "it began again meanwhile, which is the same alert"
	case p.Attempts > 0 && !p.Held: // The receiver may know the episode already.
		return Send, ""
	case p.BeginUnsent:
		return Mute, "the opening of the episode was never sent"
	case p.Held && !p.ClosedAt.IsZero() && !p.Kind.Ends(): // The end is sent on its own if the opening was.
		return Mute, "a maintenance window held it, and the episode is over"
	case p.HeldUntil.After(p.Now):
		return Postpone, ""
	case p.EarlierEndQueued && p.isAlert():
		return Queue, ""
	default:
		return Send, ""
	}
}

// isAlert reports whether the receiver identifies all episodes of a rule and an endpoint as one
// alert. There, a late end would close the next episode.
func (p *Delivery) isAlert() bool { return p.Channel.Kind == Alertmanager }

// Hold returns how long a maintenance window holds the notice back before it is rechecked.
func (p *Delivery) Hold() time.Duration { return min(p.HeldUntil.Sub(p.Now), maxHold) }
