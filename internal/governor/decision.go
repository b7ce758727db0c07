package governor

import "time"

// Source is the rule that last set a due time.
type Source string

// The sources.
const (
	SourcePaused           Source = "paused"            // held back by a pause
	SourceChangeRate       Source = "change-rate"       // the rate at which the answers change
	SourceAIOneShot        Source = "ai-oneshot"        // a one-shot hint
	SourceAIInterval       Source = "ai-interval"       // an interval hint
	SourceBaselineCron     Source = "baseline-cron"     // the user's cron
	SourceBaselineInterval Source = "baseline-interval" // the user's interval, with backoff
	SourceClampedMin       Source = "clamped-min"       // moved later to keep the minimum
	SourceClampedMax       Source = "clamped-max"       // moved earlier to keep the maximum
	SourceRetryAfter       Source = "retry-after"       // the target asked to wait
	SourceTarget           Source = "target"            // a header of a successful answer
	SourceCircuitOpen      Source = "circuit-open"      // the breaker of the host was open
	SourceEnded            Source = "ended"             // the schedule is over
	SourceManual           Source = "manual"            // a user started a run; never from Decide
	SourceCall             Source = "call"              // the due time of a call; never from Decide
)

// Sources returns every source, including those that Decide never returns, so that metrics and
// checks can list them.
func Sources() []Source {
	return []Source{
		SourcePaused, SourceChangeRate, SourceAIOneShot, SourceAIInterval, SourceBaselineCron, SourceBaselineInterval,
		SourceClampedMin, SourceClampedMax, SourceRetryAfter, SourceTarget, SourceCircuitOpen, SourceEnded, SourceManual, SourceCall,
	}
}

// Rule is the rule that added a step to the trace.
type Rule string

// The rules in the order of their application. Rules on one line exclude each other.
const (
	RuleBaselineInterval Rule = "baseline-interval" // or the cron below
	RuleBaselineCron     Rule = "baseline-cron"
	RuleChangeRate       Rule = "change-rate"
	RuleAIInterval       Rule = "ai-interval"
	RuleAIOneShot        Rule = "ai-oneshot"
	RuleQueued           Rule = "queued" // or overrun
	RuleTarget           Rule = "target"
	RuleRetryAfter       Rule = "retry-after"
	RuleOverrun          Rule = "overrun"
	RuleJitter           Rule = "jitter"
	RuleClampedMin       Rule = "clamped-min"
	RuleClampedMax       Rule = "clamped-max"
	RuleNotBeforeNow     Rule = "not-before-now" // a clamp reached back into the past
	RuleCircuitOpen      Rule = "circuit-open"
	RulePaused           Rule = "paused"
	RuleEnded            Rule = "ended"
)

// Step is one applied rule: the resulting instant, and the reason in plain text.
type Step struct {
	Rule Rule      `json:"rule"`
	At   time.Time `json:"at"`
	Why  string    `json:"why"`
	// Price is the price of a run in change-seconds, by which the rate of change set the interval; 0
	// in steps of other rules.
	Price float64 `json:"price,omitempty"`
}

// Decision is the result of [Decide]. All instants are UTC.
type Decision struct {
	At time.Time // due time of the next run
	// Slot is the due time that the run stands for: At without jitter and without the minimum after
	// the last start, or a missed occurrence.
	Slot time.Time
	// Source is the rule that last set At. The rules queued, overrun, jitter and not-before-now do
	// not change it.
	Source Source
	// Steps are the applied rules in order; never empty. The last step's instant is At.
	Steps []Step
}
