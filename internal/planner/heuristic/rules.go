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
	watchFaster    = 4   // a target that fails is watched so many times as often as usual
	recoverFaster  = 2   // one that has just recovered
	watchFailures  = 5   // failures in a row up to which watching it more often tells anything
	recoveryLook   = 10  // newest runs among which a failure counts as recent
	recoverySteady = 5   // successes in a row that end the watch of a recovery
	strainedFrom   = 2.0 // so many times slower than usual is strain
	changePairs    = 10  // newest pairs of answers that the change rate is told by
	suddenPairs    = 3   // newest pairs that tell it alone where every one of them differs
	enoughPairs    = 3   // pairs that it takes to act on it
	calmPairs      = 10  // pairs without a change that it takes to relax
	mostFaster     = 8   // bounds of what the change rate may ask for
	mostSlower     = 2
	alertEvery     = 10 * time.Minute
	groupLook      = 15 * time.Second // how often who has a role looks at its group, as far as the rails let it
)

// wait leaves a target alone that asked to be.
func wait(c planner.Case) (opinion, bool) {
	if !c.RetryAfter.After(c.At) {
		return opinion{}, false
	}
	left := c.RetryAfter.Sub(c.At)
	return opinion{
		why: fmt.Sprintf("the target asked to wait for another %s, and gets its usual tempo after that", spell(left)), sure: 1, next: left + time.Second,
	}, true
}

// failing watches a target more often for its first failures. One that says it is overloaded, or that has failed for long, is left to the
// backoff.
func failing(c planner.Case) (opinion, bool) {
	if c.FailureCount == 0 {
		return opinion{}, false
	}
	next := bounded(4*c.Usual, 30*time.Second, 10*time.Minute)
	switch newest := newest(c); {
	case newest.StatusCode == http.StatusTooManyRequests || newest.StatusCode == http.StatusServiceUnavailable:
		return opinion{why: fmt.Sprintf("the target answers %d, so it gets the backoff rather than more requests", newest.StatusCode), sure: 0.9, next: next}, true
	case c.FailureCount > watchFailures:
		return opinion{why: fmt.Sprintf("it has failed %d times in a row: looking more often tells nothing new, so the backoff decides", c.FailureCount), sure: 0.9, next: next}, true
	default:
		return opinion{
			every: c.Usual / watchFaster, why: fmt.Sprintf("it fails (%d in a row): watched closely to see whether that lasts", c.FailureCount), sure: 0.8,
			next: bounded(2*c.Usual, 15*time.Second, 5*time.Minute),
		}, true
	}
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
		return s.Role != role && s.Role != planner.RoleAlert && s.Role != planner.RoleInvestigation && s.Role != planner.RoleRecovery && troubled(s)
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
	return !s.Paused && (s.FailureCount > 0 || s.Strain >= strainedFrom)
}

func symptom(s planner.Sibling) string {
	if s.FailureCount > 0 {
		return fmt.Sprintf("fails (%d in a row)", s.FailureCount)
	}
	return fmt.Sprintf("answers %.1f times slower than usual", s.Strain)
}

// strained looks more often at a target that answers and has become slow: what slows it may go on to break it. It is asked no more than
// twice as often, since asking is load as well.
func strained(c planner.Case) (opinion, bool) {
	if c.Strain < strainedFrom {
		return opinion{}, false
	}
	return opinion{
		every: c.Usual / recoverFaster, why: fmt.Sprintf("it answers %.1f times slower than usual: watched for what comes of it", c.Strain), sure: 0.6,
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
