package heuristic

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"rubato/internal/planner"
)

// The numbers of the rules.
const (
	watchFaster    = 4  // what a role minds is watched so many times as often as usual
	outageFaster   = 3  // a target that fails is, at first: with 4 an hour at 10 s takes 63 requests, with 3 it takes less than 60
	recoverFaster  = 2  // one that has just recovered
	recoveryLook   = 10 // newest runs among which a failure counts as recent
	recoverySteady = 5  // successes in a row that end the watch of a recovery
	changePairs    = 10 // newest pairs of answers that the change rate is told by
	suddenPairs    = 3  // newest pairs that tell it alone where every one of them differs
	enoughPairs    = 3  // pairs that it takes to act on it
	calmPairs      = 10 // pairs without a change that it takes to relax
	mostFaster     = 8  // bounds of what the change rate may ask for
	mostSlower     = 2
	alertEvery     = 10 * time.Minute
	groupLook      = 15 * time.Second // how often who has a role looks at its group, as far as the rails let it
)

// wait leaves a target alone that asked to be: it never makes it run sooner than without a hint.
func wait(c planner.Case) (opinion, bool) {
	if !c.RetryAfter.After(c.At) {
		return opinion{}, false
	}
	left := c.RetryAfter.Sub(c.At)
	return slowly(c, opinion{
		why: fmt.Sprintf("the target asked to wait for another %s, and gets its usual tempo after that", spell(left)), sure: 1, next: left + time.Second,
	}), true
}

// refused leaves a target that answers 429 or 503 to the backoff, or to the interval that it was found to accept where that is longer.
func refused(c planner.Case) (opinion, bool) {
	code := newest(c).StatusCode
	if c.FailureCount == 0 || code != http.StatusTooManyRequests && code != http.StatusServiceUnavailable {
		return opinion{}, false
	}
	return slowly(c, opinion{
		why: fmt.Sprintf("the target answers %d, so it gets the backoff rather than more requests", code), sure: 0.9,
		next: bounded(4*c.Usual, 30*time.Second, 10*time.Minute),
	}), true
}

// slowly lets a hint go only where the endpoint does not run sooner without it, and asks for the interval that the target was found to
// accept where that is longer than what the failures make of the usual one.
func slowly(c planner.Case, o opinion) opinion {
	without := c.Usual
	if c.Baseline.Cron == "" {
		without <<= min(c.FailureCount, backoffSteps)
	}
	if c.Max > 0 {
		without = min(without, c.Max)
	}
	if looks(c) && c.Polite > max(without, c.Usual) {
		o.every = c.Polite
	}
	o.keep = hinted(c) && c.Tempo > max(without, c.Polite)
	return o
}

// backoffSteps is how often the governor doubles an interval for failures in a row.
const backoffSteps = 5

func hinted(c planner.Case) bool {
	return c.IntervalHint != nil && c.IntervalHint.ExpiresAt.After(c.At)
}

// failing watches a target that fails: three times as often as usual at first, and then each tenth of the time that the outage has taken, so
// that its end is noticed soon and its length costs few requests. The governor makes the waits; the hint ends with the first success.
func failing(c planner.Case) (opinion, bool) {
	if c.FailureCount == 0 {
		return opinion{}, false
	}
	o := opinion{sure: 0.8, next: bounded(2*c.Usual, 15*time.Second, 5*time.Minute)}
	o.since = began(c)
	age := c.At.Sub(o.since)
	o.every = c.Usual / outageFaster
	o.why = fmt.Sprintf("it fails (%d in a row): watched at a tenth of the outage's age, to see its end soon", c.FailureCount)
	if hinted(c) && c.IntervalHint.OutageSince.Equal(o.since) && c.IntervalHint.ExpiresAt.Sub(c.At) > outageLife/2 {
		o.keep, o.why = true, fmt.Sprintf("it has failed for %s (%d in a row): watched at a tenth of that", spell(age), c.FailureCount)
	}
	return o, true
}

// began returns when the outage began: the hint for it knows, else the oldest of the newest failures in a row.
func began(c planner.Case) time.Time {
	since := c.At
	for _, o := range c.Outcomes {
		if o.Status == "succeeded" {
			break
		}
		if failed(o) {
			since = o.StartedAt
		}
	}
	if h := c.IntervalHint; hinted(c) && !h.OutageSince.IsZero() && h.OutageSince.Before(since) {
		return h.OutageSince
	}
	return since
}

// recovering goes on watching a target that failed a moment ago, until it has succeeded for a while. Where the newest attempt failed and
// counts as no failure, since it is tried again or somebody reset the count, nothing tells yet whether it recovers: the tempo stays.
func recovering(c planner.Case) (opinion, bool) {
	recent := c.Outcomes[:min(len(c.Outcomes), recoveryLook)]
	last := slices.IndexFunc(recent, failed)
	if last < 0 || last >= recoverySteady {
		return opinion{}, false
	}
	o := opinion{sure: 0.7, next: bounded(2*c.Usual, 15*time.Second, 5*time.Minute)}
	if last == 0 {
		o.keep, o.why = true, "its newest attempt failed and does not count as a failure yet: the next one tells"
		return o, true
	}
	o.every, o.why = c.Usual/recoverFaster, fmt.Sprintf("it succeeds again (%d in a row after a failure): watched until it is steady", last)
	return o, true
}

func failed(o planner.Outcome) bool { return o.Status == "failed" || o.Status == "timed_out" }

// newest returns the newest outcome; zero where there is none.
func newest(c planner.Case) planner.Outcome {
	if len(c.Outcomes) == 0 {
		return planner.Outcome{}
	}
	return c.Outcomes[0]
}

// looks reports whether a call only looks, so that one more or less changes nothing: its method is safe (RFC 9110 section 9.2.1). How often
// other calls are made is not for rules to say that judge by what there is to see.
func looks(c planner.Case) bool {
	return c.Method == http.MethodGet || c.Method == http.MethodHead || c.Method == http.MethodOptions
}

// helper reports whether an endpoint is there for its group.
func helper(c planner.Case) bool {
	return slices.Contains(planner.Roles(), c.Labels[planner.RoleLabel])
}

// trouble does what the endpoint's role asks for while a sibling fails or is strained. An endpoint without a role does not mind.
func trouble(c planner.Case) (opinion, bool) {
	if !helper(c) {
		return opinion{}, false
	}
	role := c.Labels[planner.RoleLabel]
	i := slices.IndexFunc(c.Siblings, func(s planner.Sibling) bool {
		return (s.FailureCount > 0 || !c.Crowd.Ours()) && s.Role != role && s.Role != planner.RoleAlert && s.Role != planner.RoleInvestigation && s.Role != planner.RoleRecovery && troubled(s)
	})
	if i < 0 {
		return opinion{}, false
	}
	o := opinion{
		why: fmt.Sprintf("%s of its group %s", c.Siblings[i].Name, symptom(c.Siblings[i])), sure: 0.8, next: bounded(c.Usual/watchFaster, 15*time.Second, 5*time.Minute),
	}
	idle := len(c.Outcomes) == 0 || c.At.Sub(c.Outcomes[0].StartedAt) >= alertEvery
	switch role {
	case planner.RoleHealth:
		o.every, o.why = c.Usual/watchFaster, o.why+": its health is watched closely"
	case planner.RoleInvestigation:
		o.every, o.once, o.why = c.Usual/watchFaster, idle, o.why+": evidence is gathered"
	case planner.RoleRecovery:
		o.keep, o.once, o.why = true, idle, o.why+": it mends, at most every "+spell(alertEvery)
	case planner.RoleAlert:
		o.keep, o.once, o.why = true, idle, o.why+": somebody is told, at most every "+spell(alertEvery)
	}
	return o, true
}

func troubled(s planner.Sibling) bool {
	return !s.Paused && (s.FailureCount > 0 || s.Strain.Present())
}

func symptom(s planner.Sibling) string {
	if s.FailureCount > 0 {
		return fmt.Sprintf("fails (%d in a row)", s.FailureCount)
	}
	return fmt.Sprintf("answers %.1f times slower than usual", s.Strain.Times)
}

// strained looks more often at a target that answers and has become slow: what slows it may go on to break it. It is asked no more than
// twice as often, since asking is load as well. Where many endpoints of several hosts are slow at once, the scheduler is, and nothing follows.
func strained(c planner.Case) (opinion, bool) {
	if !c.Strain.Present() || c.Crowd.Ours() {
		return opinion{}, false
	}
	return opinion{
		every: c.Usual / recoverFaster, why: fmt.Sprintf("it answers %.1f times slower than usual: watched for what comes of it", c.Strain.Times), sure: 0.6,
		next: bounded(4*c.Usual, 15*time.Second, 5*time.Minute),
	}, true
}

// changing looks as often as answers change: so that one look in two finds something new. Answers that do not change are looked at less.
func changing(c planner.Case) (opinion, bool) {
	seen := pairs(c.Outcomes, changePairs)
	if sudden := pairs(c.Outcomes, suddenPairs); sudden.Changed == suddenPairs {
		seen = sudden
	}
	rate, known := seen.Rate()
	if !known || seen.Pairs < enoughPairs {
		return opinion{}, false
	}
	detail := fmt.Sprintf("%d of the newest %d answers differ from the one before, %s apart", seen.Changed, seen.Pairs, spell(seen.Gap))
	next := bounded(6*c.Tempo, 15*time.Second, 30*time.Minute)
	if seen.Changed == 0 {
		if seen.Pairs < calmPairs || c.Labels[planner.RoleLabel] != "" { // Who has a role is there to look, not to find.
			return opinion{}, false
		}
		if c.Tempo < c.Usual {
			return opinion{why: "its answers do not change any more", inform: detail, sure: 0.7, next: next}, true
		}
		return opinion{
			every: min(2*c.Tempo, mostSlower*c.Usual), why: "its answers do not change, so fewer looks lose nothing", inform: detail, sure: 0.6, next: next,
		}, true
	}
	if seen = pairs(c.Outcomes, 1); seen.Changed == 1 && c.Tempo > c.Usual {
		return opinion{why: "its answers change again", inform: detail, sure: 0.7, next: next}, true
	}
	wanted := time.Duration(math.Ln2 / rate * float64(time.Second)).Round(100 * time.Millisecond)
	wanted = bounded(wanted, c.Usual/mostFaster, mostSlower*c.Usual)
	if near(wanted, c.Usual) {
		return opinion{why: "its answers change about as often as it is looked at", inform: detail, sure: 0.6, next: next}, true
	}
	return opinion{
		every: wanted, why: fmt.Sprintf("its answers change every %s or so", spell(time.Duration(float64(time.Second)/rate))), inform: detail, sure: 0.7, next: next,
	}, true
}

// near reports whether an interval is so close to the usual one that no hint is needed.
func near(a, b time.Duration) bool {
	ratio := float64(a) / float64(max(b, 1))
	return ratio > 0.67 && ratio < 1.5
}

// pairs counts how often the newest answers, so many pairs of them, differ from the one before. Answers of a failing target say nothing.
func pairs(list []planner.Outcome, limit int) (c planner.Changes) {
	var total time.Duration
	for i := 0; i+1 < len(list) && c.Pairs < limit; i++ {
		fresh, old := list[i], list[i+1]
		if fresh.Status != "succeeded" || old.Status != "succeeded" || fresh.Digest == 0 && old.Digest == 0 {
			continue
		}
		c.Pairs++
		total += fresh.StartedAt.Sub(old.StartedAt)
		if fresh.Digest != old.Digest {
			c.Changed++
		}
	}
	if c.Pairs > 0 {
		c.Gap = total / time.Duration(c.Pairs)
	}
	return c
}

// calm restores the baseline.
func calm(c planner.Case) opinion {
	return opinion{why: "nothing speaks for another tempo than the usual one", sure: 0.8, next: bounded(6*c.Usual, 30*time.Second, 30*time.Minute)}
}
