package governor

import "time"

// Source names what last set a due time.
type Source string

// The sources.
const (
	SourcePaused           Source = "paused"            // held back by a pause
	SourceAIOneShot        Source = "ai-oneshot"        // a one-shot hint
	SourceAIInterval       Source = "ai-interval"       // an interval hint
	SourceBaselineCron     Source = "baseline-cron"     // the user's cron
	SourceBaselineInterval Source = "baseline-interval" // the user's interval, with backoff
	SourceClampedMin       Source = "clamped-min"       // moved later to keep the minimum
	SourceClampedMax       Source = "clamped-max"       // moved earlier to keep the maximum
	SourceRetryAfter       Source = "retry-after"       // the target asked to wait
	SourceManual           Source = "manual"            // somebody asked for a run now; never from Decide
)

// Sources returns every source, those that no decision has included, so that metrics and checks can name them all.
func Sources() []Source {
	return []Source{
		SourcePaused, SourceAIOneShot, SourceAIInterval, SourceBaselineCron, SourceBaselineInterval,
		SourceClampedMin, SourceClampedMax, SourceRetryAfter, SourceManual,
	}
}

// Rule names the rule that a step of the trace comes from.
type Rule string

// The rules, in the order in which they apply. Those of one line never apply together.
const (
	RuleBaselineInterval Rule = "baseline-interval" // or the cron below
	RuleBaselineCron     Rule = "baseline-cron"
	RuleAIInterval       Rule = "ai-interval"
	RuleAIOneShot        Rule = "ai-oneshot"
	RuleRetryAfter       Rule = "retry-after"
	RuleOverrun          Rule = "overrun"
	RuleJitter           Rule = "jitter"
	RuleClampedMin       Rule = "clamped-min"
	RuleClampedMax       Rule = "clamped-max"
	RuleNotBeforeNow     Rule = "not-before-now" // a clamp reached back into the past
	RulePaused           Rule = "paused"
)

// Step is one rule that applied: the instant it left and why, in words for an operator.
type Step struct {
	Rule Rule      `json:"rule"`
	At   time.Time `json:"at"`
	Why  string    `json:"why"`
}

// Decision is the answer of [Decide]. All instants are UTC.
type Decision struct {
	At     time.Time // when to run next
	Slot   time.Time // the due time that the run stands for: At without jitter and without the wait for the minimum, or a missed occurrence
	Source Source    // the rule that last set At; the overrun floor, jitter and never-before-now keep it
	Steps  []Step    // the rules that applied, in order; never empty, and the last one's instant is At
}
