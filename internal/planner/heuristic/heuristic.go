// Package heuristic is the advisor that needs no model: it decides by a few rules, the same way every time, and says which.
//
// The first rule that applies decides. In their order: the target asked to wait; it refuses; it fails; it has just recovered; its group is
// in trouble; its answers change often or seldom; it answers slowly; all is calm. None makes a target run more often than it accepts.
// Nothing that a target answered is read, apart from whether it differs from the answer before; nothing that a user wrote is, apart from
// the label role.
package heuristic

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"rubato/internal/planner"
)

// Name is how hints and sessions call this advisor.
const Name = "heuristic"

// Advisor is the heuristic. It keeps nothing, and is safe for concurrent use.
type Advisor struct{}

var _ planner.Advisor = Advisor{}

// New returns the heuristic.
func New() Advisor { return Advisor{} }

// Name implements planner.Advisor.
func (Advisor) Name() string { return Name }

// opinion is what a rule makes of a case.
type recommendation struct {
	interval       time.Duration // the interval that is wanted; 0: none, so a hint of the planner's is forgotten
	outageSince    time.Time     // the beginning of the outage that the interval is for; zero: none
	keepHints      bool          // leave everything as it is
	runOnce        bool          // also run once, now
	reason         string        // for the hint and the record
	confidence     float64
	nextAnalysisIn time.Duration // when to look again
	detail         string        // a detail for the record alone
}

// Advise implements planner.Advisor.
func (Advisor) Advise(ctx context.Context, c planner.Snapshot, d planner.Toolset) (planner.Verdict, error) {
	o := recommend(c)
	acted, err := propose(ctx, c, d, o)
	if err != nil {
		return planner.Verdict{}, err
	}
	said := slices.DeleteFunc([]string{o.reason, o.detail, acted}, func(part string) bool { return part == "" })
	return planner.Verdict{Reasoning: strings.Join(said, "; ") + ".", Confidence: o.confidence, NextAnalysisIn: o.nextAnalysisIn}, nil
}

// judge returns what the first rule says that applies. Who is there for its group looks at the group often. Nothing is looked at sooner than
// it can be, nor wanted more often than anything can run.
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

// politely makes an opinion ask for no shorter interval than the target was found to accept.
func withRateLimit(c planner.Snapshot, o recommendation) recommendation {
	if !isSafe(c) || c.RateLimitInterval <= c.Usual || o.keepHints || c.FailureCount > 0 || o.interval >= c.RateLimitInterval {
		return o
	}
	o.interval = c.RateLimitInterval
	o.reason += fmt.Sprintf("; it answered 429 a while ago, and accepts a request every %s", formatDuration(c.RateLimitInterval))
	return o
}

// shortest is the shortest interval that a hint may ask for.
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

// act proposes what an opinion wants, and tells in words what the rails made of it. That they refuse is no error: the reason stands in the
// record, and the next look proposes again.
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
	ruling, err := d.ProposeInterval(ctx, planner.IntervalProposal{Interval: o.interval, TTL: hintTTL(o), Reason: o.reason, OutageSince: o.outageSince})
	switch {
	case err != nil:
		return fmt.Sprintf("every %s was wanted: %s", formatDuration(o.interval), err), ctx.Err()
	case ruling.Note != "":
		return fmt.Sprintf("every %s: %s", formatDuration(ruling.Interval), ruling.Note), ctx.Err()
	default:
		return "every " + formatDuration(ruling.Interval), ctx.Err()
	}
}

// life returns how long a hint holds: until two looks after the next one, so that one look that fails changes nothing.
func hintTTL(o recommendation) time.Duration {
	if !o.outageSince.IsZero() {
		return outageTTL
	}
	return bounded(3*o.nextAnalysisIn, 2*time.Minute, 6*time.Hour)
}

// outageLife is how long a hint for an outage holds. It ends with the outage; the bound is for a planner that is gone.
const outageTTL = 6 * time.Hour

func bounded(d, low, high time.Duration) time.Duration { return max(low, min(d, high)) }

// spell writes a duration without what is too small to matter.
func formatDuration(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	default:
		return d.Round(10 * time.Millisecond).String()
	}
}
