package notices

import (
	"time"

	"rubato/internal/endpoints"
)

// Lock is for how long a notice is claimed: longer than an attempt to send it takes.
const Lock = time.Minute

const (
	// MaxAttempts is how often a notice is sent before it is given up: over about two hours.
	MaxAttempts = 14

	firstWait = 5 * time.Second
	maxWait   = 15 * time.Minute
	// maxAsked is the longest wait that a receiver may ask for.
	maxAsked = time.Hour
	// maxHold is for how long a notice that a maintenance window holds is not looked at. Who changes a window lets go what it holds, but not what
	// is about to be held at that moment, and who changes an endpoint's labels lets go nothing.
	maxHold = 15 * time.Minute

	// Turn is how long a notice waits before it is looked at again whether the one before it has gone out.
	Turn = 5 * time.Second
)

// Delivery is a notice that is to be delivered: what it says, and where it goes.
type Delivery struct {
	Notice

	TenantID         [16]byte
	RuleID           [16]byte
	Labels           map[string]string // of the endpoint, when the episode opened
	Spec             endpoints.Spec    // of the endpoint; zero: it is about none
	Host             string            // of the endpoint's URL, with its port; empty: it is about none
	PublicURL        string            // where people reach the console, without a slash at the end; empty: the operator did not say
	Token            int64             // the fence of the claim
	Channel          Channel
	Remind           time.Duration
	Fault            error     // what is stored of it cannot be read, and why; nil: it can
	RuleGone         bool      // nobody knows any more where it goes
	BeginUnsent      bool      // nobody was told that its episode began
	EarlierEndQueued bool      // it begins an episode, and the end of an earlier one is still to go where it goes
	Overtaken        bool      // it ends an episode, and whom it is for may know that the next one began
	HeldUntil        time.Time // by a maintenance window; zero: by none
	SecretsVersion   int64     // of the tenant
	Now              time.Time // in database time, when it was claimed
	Test             bool
}

// Link returns the page of the endpoint in the console, or the page of notices where the parcel is a test; empty where PublicURL is.
func (p *Delivery) Link() string {
	switch {
	case p.PublicURL == "":
		return ""
	case p.Test:
		return p.PublicURL + "/console/notices"
	}
	return p.PublicURL + "/console/endpoints/" + p.EndpointID.String()
}

// RunLink returns the page of the run in the console; empty where there is no run, or PublicURL is empty.
func (p *Delivery) RunLink() string {
	if p.PublicURL == "" || p.Detail.RunID == "" {
		return ""
	}
	return p.PublicURL + "/console/runs/" + p.Detail.RunID
}

// Capacity is how many notices can be sent at the moment, and of whom.
type Capacity struct {
	Limit       int        // at most so many
	PerRule     int        // at most so many of each rule
	PerTenant   int        // likewise
	FullRules   [][16]byte // rules of which nothing more can be sent for now
	FullTenants [][16]byte // likewise
}

// Result is what came of an attempt to deliver a notice.
type Result struct {
	StatusCode int    // of the answer; zero: there was none, or the channel has none
	Error      string // empty: the receiver took it
	Note       string // who of several did not get it although the receiver took it; empty: everybody did
	Asked      time.Duration
	Took       time.Duration
}

// Delivered reports whether the receiver took the notice.
func (r Result) Delivered() bool { return r.Error == "" }

// Wait returns how long to wait after a number of attempts that failed, where share, in [0, 1), spreads those that failed together.
func Wait(attempts int, asked time.Duration, share float64) time.Duration {
	wait := firstWait << min(max(attempts-1, 0), 10)
	wait = min(wait, maxWait)
	wait += time.Duration(share * float64(wait) / 5)
	return max(wait, min(asked, maxAsked))
}

// Verdict is what is to be done with a parcel before it is sent.
type Verdict string

// The verdicts.
const (
	Send     Verdict = "send"
	Mute     Verdict = "mute"     // nobody is told
	Postpone Verdict = "postpone" // until the maintenance window is over
	Queue    Verdict = "queue"    // until the notice before it has gone out
	GiveUp   Verdict = "give up"  // nobody can be told
)

// Judge returns what is to be done with a parcel, and why nobody is told.
func (p *Delivery) Judge() (Verdict, string) {
	switch {
	case p.RuleGone:
		return Mute, "the rule is gone"
	case p.Fault != nil:
		return GiveUp, p.Fault.Error()
	case p.Overtaken && p.isAlert():
		return Mute, "it began again meanwhile, which is the same alert"
	case p.Attempts > 0 && !p.Held: // The receiver may have it already.
		return Send, ""
	case p.BeginUnsent:
		return Mute, "nobody was told that it began"
	case p.Held && !p.ClosedAt.IsZero() && !p.Kind.Ends(): // Who knows of its begin is told of its end, if later.
		return Mute, "a maintenance window held it, and the episode is over"
	case p.HeldUntil.After(p.Now):
		return Postpone, ""
	case p.EarlierEndQueued && p.isAlert():
		return Queue, ""
	default:
		return Send, ""
	}
}

// isAlert reports whether the receiver knows every episode of a rule and an endpoint as one alert, so that an end that comes after the next
// begin closes what is open.
func (p *Delivery) isAlert() bool { return p.Channel.Kind == Alertmanager }

// Hold returns how long a maintenance window holds the parcel before somebody looks at it again.
func (p *Delivery) Hold() time.Duration { return min(p.HeldUntil.Sub(p.Now), maxHold) }
