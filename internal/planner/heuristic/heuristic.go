// Package heuristic is the advisor that needs no model: a few deterministic rules, each named in
// its verdict.
//
// The first matching rule decides. In order: the target sent Retry-After; it answers 429 or 503; it
// fails; it has just recovered; its group is in trouble; its responses change often or seldom; it
// is slow; nothing is unusual. No rule calls a target more often than it accepts. The rules read
// neither response bodies, except whether they changed, nor texts of users, except the label role.
package heuristic

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"rubato/internal/planner"
)

// Name is the advisor's name in hints and sessions.
const Name = "heuristic"

// Advisor is the rule-based advisor. It has no state and is safe for concurrent use.
type Advisor struct{}

var _ planner.Advisor = Advisor{}

// New returns the heuristic.
func New() Advisor { return Advisor{} }

// Name implements planner.Advisor.
func (Advisor) Name() string { return Name }

// recommendation is the result of a rule.
type recommendation struct {
	// interval is the recommended interval; 0 removes the planner's hint.
	interval time.Duration
	// outageSince is the start of the outage that the interval is for; zero if there is none.
	outageSince time.Time
	// keepHints leaves the hints as they are.
	keepHints bool
	// runOnce proposes a run now, in addition.
	runOnce bool
	// reason is shown with the hint and in the session.
	reason         string
	confidence     float64
	nextAnalysisIn time.Duration
	// detail is recorded in the session only.
	detail string
}

// Advise implements planner.Advisor.
func (Advisor) Advise(ctx context.Context, c planner.Snapshot, d planner.Toolset) (planner.Verdict, error) {
	o := recommend(c)
	acted, err := propose(ctx, c, d, o)
	if err != nil {
		return planner.Verdict{}, err
	}
	said := slices.DeleteFunc([]string{o.reason, o.detail, acted}, func(part string) bool { return part == "" })
	return planner.Verdict{
		Reasoning:      strings.Join(said, "; ") + ".",
		Confidence:     o.confidence,
		NextAnalysisIn: o.nextAnalysisIn,
	}, nil
}

// recommend returns the recommendation of the first matching rule, within its limits. Endpoints
// with a role are analysed often, because they react to their group.
func recommend(c planner.Snapshot) recommendation {
	o := firstRule(c)
	if hasRole(c) && len(c.Siblings) > 0 {
		o.nextAnalysisIn = min(o.nextAnalysisIn, groupInterval)
	}
	o.nextAnalysisIn = max(o.nextAnalysisIn, c.AnalysisInterval)
	if o.interval > 0 {
		o.interval = max(o.interval, minInterval)
	}
	return withRateLimit(c, o)
}

// withRateLimit raises the interval to the shortest one that the target accepted after a 429.
func withRateLimit(c planner.Snapshot, o recommendation) recommendation {
	if !isSafe(c) || c.RateLimitInterval <= c.Usual || o.keepHints || c.FailureCount > 0 || o.interval >= c.RateLimitInterval {
		return o
	}
	o.interval = c.RateLimitInterval
	o.reason += fmt.Sprintf("; it answered 429 a while ago, and accepts a request every %s", formatDuration(c.RateLimitInterval))
	return o
}

// minInterval is the shortest interval of a hint.
const minInterval = time.Second

func firstRule(c planner.Snapshot) recommendation {
	rules := []func(planner.Snapshot) (recommendation, bool){retryAfter, throttled, failing, recovering, groupTrouble, changing, slow}
	if !isSafe(c) {
		rules = []func(planner.Snapshot) (recommendation, bool){retryAfter, groupTrouble}
	}
	for _, rule := range rules {
		if o, applies := rule(c); applies {
			return o
		}
	}
	return calm(c)
}

// propose makes the recommended proposals and describes the result. A refusal by the guardrails is
// no error: it is recorded, and the next analysis tries again.
func propose(ctx context.Context, c planner.Snapshot, d planner.Toolset, o recommendation) (string, error) {
	var said string
	if o.runOnce {
		if _, err := d.ProposeNextRun(ctx, planner.NextRunProposal{TTL: time.Minute, Reason: o.reason}); err != nil {
			said = "no single run: " + err.Error()
		}
	}
	if o.keepHints {
		return said, ctx.Err()
	}
	if o.interval == 0 {
		if c.IntervalHint == nil || !c.IntervalHint.ExpiresAt.After(c.At) {
			return said, ctx.Err()
		}
		if _, err := d.ClearHints(ctx, o.reason); err != nil {
			return "the hint stays: " + err.Error(), ctx.Err()
		}
		return "back to every " + formatDuration(c.Usual), ctx.Err()
	}
	ruling, err := d.ProposeInterval(ctx, planner.IntervalProposal{
		Interval:    o.interval,
		TTL:         hintTTL(o),
		Reason:      o.reason,
		OutageSince: o.outageSince,
	})
	switch {
	case err != nil:
		return fmt.Sprintf("every %s was wanted: %s", formatDuration(o.interval), err), ctx.Err()
	case ruling.Note != "":
		return fmt.Sprintf("every %s: %s", formatDuration(ruling.Interval), ruling.Note), ctx.Err()
	default:
		return "every " + formatDuration(ruling.Interval), ctx.Err()
	}
}

// hintTTL returns the time to live of a hint. It spans three analyses, so that one failed analysis
// changes nothing.
func hintTTL(o recommendation) time.Duration {
	if !o.outageSince.IsZero() {
		return outageTTL
	}
	return bounded(3*o.nextAnalysisIn, 2*time.Minute, 6*time.Hour)
}

// outageTTL is the time to live of a hint for an outage. The hint ends with the outage; the limit
// matters only if the planner stops.
const outageTTL = 6 * time.Hour

func bounded(d, low, high time.Duration) time.Duration { return max(low, min(d, high)) }

// formatDuration formats a duration without insignificant digits.
func formatDuration(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	default:
		return d.Round(10 * time.Millisecond).String()
	}
}
