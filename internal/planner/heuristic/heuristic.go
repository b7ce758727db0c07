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
type opinion struct {
	every  time.Duration // the interval that is wanted; 0: none, so a hint of the planner's is forgotten
	since  time.Time     // the beginning of the outage that the interval is for; zero: none
	keep   bool          // leave everything as it is
	once   bool          // also run once, now
	why    string        // for the hint and the record
	sure   float64
	next   time.Duration // when to look again
	inform string        // a detail for the record alone
}

// Advise implements planner.Advisor.
func (Advisor) Advise(ctx context.Context, c planner.Case, d planner.Desk) (planner.Verdict, error) {
	o := judge(c)
	acted, err := act(ctx, c, d, o)
	if err != nil {
		return planner.Verdict{}, err
	}
	said := slices.DeleteFunc([]string{o.why, o.inform, acted}, func(part string) bool { return part == "" })
	return planner.Verdict{Reasoning: strings.Join(said, "; ") + ".", Confidence: o.sure, NextAnalysisIn: o.next}, nil
}

// judge returns what the first rule says that applies. Who is there for its group looks at the group often. Nothing is looked at sooner than
// it can be, nor wanted more often than anything can run.
func judge(c planner.Case) opinion {
	o := decide(c)
	if helper(c) && len(c.Siblings) > 0 {
		o.next = min(o.next, groupLook)
	}
	o.next = max(o.next, c.LookEvery)
	if o.every > 0 {
		o.every = max(o.every, shortest)
	}
	return politely(c, o)
}

// politely makes an opinion ask for no shorter interval than the target was found to accept.
func politely(c planner.Case, o opinion) opinion {
	if !looks(c) || c.Polite <= c.Usual || o.keep || c.FailureCount > 0 || o.every >= c.Polite {
		return o
	}
	o.every = c.Polite
	o.why += fmt.Sprintf("; it answered 429 a while ago, and accepts a request every %s", spell(c.Polite))
	return o
}

// shortest is the shortest interval that a hint may ask for.
const shortest = time.Second

func decide(c planner.Case) opinion {
	rules := []func(planner.Case) (opinion, bool){wait, refused, failing, recovering, trouble, changing, strained}
	if !looks(c) {
		rules = []func(planner.Case) (opinion, bool){wait, trouble}
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
func act(ctx context.Context, c planner.Case, d planner.Desk, o opinion) (string, error) {
	var said string
	if o.once {
		if _, err := d.ProposeNextRun(ctx, planner.NextRunProposal{TTL: time.Minute, Reason: o.why}); err != nil {
			said = "no single run: " + err.Error()
		}
	}
	if o.keep {
		return said, ctx.Err()
	}
	if o.every == 0 {
		if c.IntervalHint == nil || !c.IntervalHint.ExpiresAt.After(c.At) {
			return said, ctx.Err()
		}
		if _, err := d.ClearHints(ctx, o.why); err != nil {
			return "the hint stays: " + err.Error(), ctx.Err()
		}
		return "back to every " + spell(c.Usual), ctx.Err()
	}
	ruling, err := d.ProposeInterval(ctx, planner.IntervalProposal{Interval: o.every, TTL: life(o), Reason: o.why, OutageSince: o.since})
	switch {
	case err != nil:
		return fmt.Sprintf("every %s was wanted: %s", spell(o.every), err), ctx.Err()
	case ruling.Note != "":
		return fmt.Sprintf("every %s: %s", spell(ruling.Interval), ruling.Note), ctx.Err()
	default:
		return "every " + spell(ruling.Interval), ctx.Err()
	}
}

// life returns how long a hint holds: until two looks after the next one, so that one look that fails changes nothing.
func life(o opinion) time.Duration {
	if !o.since.IsZero() {
		return outageLife
	}
	return bounded(3*o.next, 2*time.Minute, 6*time.Hour)
}

// outageLife is how long a hint for an outage holds. It ends with the outage; the bound is for a planner that is gone.
const outageLife = 6 * time.Hour

func bounded(d, low, high time.Duration) time.Duration { return max(low, min(d, high)) }

// spell writes a duration without what is too small to matter.
func spell(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	default:
		return d.Round(10 * time.Millisecond).String()
	}
}
