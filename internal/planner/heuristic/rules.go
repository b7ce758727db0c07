package heuristic

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"rubato/internal/planner"
)

// Parameters of the rules.
const (
	watchFaster    = 4  // rate of an endpoint with a role while its group is in trouble
	outageFaster   = 3  // first rate in an outage: an hour at 10 s takes fewer than 60 requests with 3, and 63 with 4
	recoverFaster  = 2  // rate after a recovery
	recoveryRuns   = 10 // newest runs in which a failure is recent
	recoverySteady = 5  // consecutive successes that end a recovery
	mostFaster     = 8  // limits of the effect of the rate of change
	mostSlower     = 2
	alertEvery     = 10 * time.Minute
	groupInterval  = 15 * time.Second // interval of analyses of an endpoint with a role
)

// retryAfter obeys the target's Retry-After. It never recommends a run sooner than without a hint.
func retryAfter(c planner.Snapshot) (recommendation, bool) {
	if !c.RetryAfter.After(c.At) {
		return recommendation{}, false
	}
	left := c.RetryAfter.Sub(c.At)
	return neverSooner(c, recommendation{
		reason:         fmt.Sprintf("the target asked to wait for another %s, and gets its usual tempo after that", formatDuration(left)),
		confidence:     1,
		nextAnalysisIn: left + time.Second,
	}), true
}

// throttled leaves a target that answers 429 or 503 to the governor's backoff, or to its rate limit
// interval if that is longer.
func throttled(c planner.Snapshot) (recommendation, bool) {
	code := newest(c).StatusCode
	if c.FailureCount == 0 || code != http.StatusTooManyRequests && code != http.StatusServiceUnavailable {
		return recommendation{}, false
	}
	return neverSooner(c, recommendation{
		reason: fmt.Sprintf("the target answers %d, so it gets the backoff rather than more requests", code), confidence: 0.9,
		nextAnalysisIn: bounded(4*c.Usual, 30*time.Second, 10*time.Minute),
	}), true
}

// neverSooner removes a hint only if the endpoint does not run sooner without it. It recommends the
// rate limit interval if that is longer than the interval with backoff.
func neverSooner(c planner.Snapshot, o recommendation) recommendation {
	without := c.Usual
	if c.Baseline.Cron == "" {
		without <<= min(c.FailureCount, backoffSteps)
	}
	if c.Max > 0 {
		without = min(without, c.Max)
	}
	if isSafe(c) && c.RateLimitInterval > max(without, c.Usual) {
		o.interval = c.RateLimitInterval
	}
	o.keepHints = hasHint(c) && c.Tempo > max(without, c.RateLimitInterval)
	return o
}

// backoffSteps is the governor's limit on doublings of an interval.
const backoffSteps = 5

func hasHint(c planner.Snapshot) bool {
	return c.IntervalHint != nil && c.IntervalHint.ExpiresAt.After(c.At)
}

// failing polls a failing target: three times as often as usual at first, then at a tenth of the
// outage's age. Therefore the end is noticed soon, and a long outage costs few requests. The
// governor computes the waits; the hint ends with the first success.
func failing(c planner.Snapshot) (recommendation, bool) {
	if c.FailureCount == 0 {
		return recommendation{}, false
	}
	o := recommendation{confidence: 0.8, nextAnalysisIn: bounded(2*c.Usual, 15*time.Second, 5*time.Minute)}
	o.outageSince = outageStart(c)
	age := c.At.Sub(o.outageSince)
	o.interval = c.Usual / outageFaster
	o.reason = fmt.Sprintf("it fails (%d in a row): watched at a tenth of the outage's age, to see its end soon", c.FailureCount)
	if hasHint(c) && c.IntervalHint.OutageSince.Equal(o.outageSince) && c.IntervalHint.ExpiresAt.Sub(c.At) > outageTTL/2 {
		o.keepHints, o.reason = true, fmt.Sprintf("it has failed for %s (%d in a row): watched at a tenth of that", formatDuration(age), c.FailureCount)
	}
	return o, true
}

// outageStart returns the start of the outage: that of the current hint, else the oldest of the
// newest consecutive failures.
func outageStart(c planner.Snapshot) time.Time {
	since := c.At
	for _, o := range c.Outcomes {
		if o.Status == "succeeded" {
			break
		}
		if failed(o) {
			since = o.StartedAt
		}
	}
	if h := c.IntervalHint; hasHint(c) && !h.OutageSince.IsZero() && h.OutageSince.Before(since) {
		return h.OutageSince
	}
	return since
}

// recovering polls a target that failed recently until it is steady. If the newest attempt failed
// without counting as a failure, because a retry follows or a user reset the count, the interval
// stays.
func recovering(c planner.Snapshot) (recommendation, bool) {
	recent := c.Outcomes[:min(len(c.Outcomes), recoveryRuns)]
	last := slices.IndexFunc(recent, failed)
	if last < 0 || last >= recoverySteady {
		return recommendation{}, false
	}
	o := recommendation{confidence: 0.7, nextAnalysisIn: bounded(2*c.Usual, 15*time.Second, 5*time.Minute)}
	if last == 0 {
		o.keepHints, o.reason = true, "its newest attempt failed and does not count as a failure yet: the interval stays until the next one"
		return o, true
	}
	o.interval, o.reason = c.Usual/recoverFaster, fmt.Sprintf("it succeeds again (%d in a row after a failure): watched until it is steady", last)
	return o, true
}

func failed(o planner.Outcome) bool { return o.Status == "failed" || o.Status == "timed_out" }

// newest returns the newest outcome; zero if there is none.
func newest(c planner.Snapshot) planner.Outcome {
	if len(c.Outcomes) == 0 {
		return planner.Outcome{}
	}
	return c.Outcomes[0]
}

// isSafe reports whether the request's method is safe (RFC 9110 section 9.2.1). The rules change
// the rate of safe requests only, because other requests may have effects.
func isSafe(c planner.Snapshot) bool {
	return c.Method == http.MethodGet || c.Method == http.MethodHead || c.Method == http.MethodOptions
}

// hasRole reports whether the endpoint has a role in its group.
func hasRole(c planner.Snapshot) bool {
	return slices.Contains(planner.Roles(), c.Labels[planner.RoleLabel])
}

// groupTrouble applies the endpoint's role while a sibling fails or is slow. It does not apply to
// an endpoint without a role.
func groupTrouble(c planner.Snapshot) (recommendation, bool) {
	if !hasRole(c) {
		return recommendation{}, false
	}
	role := c.Labels[planner.RoleLabel]
	i := slices.IndexFunc(c.Siblings, func(s planner.Sibling) bool {
		return (s.FailureCount > 0 || !c.FleetSlowdown.SchedulerLoaded()) && s.Role != role && s.Role != planner.RoleAlert && s.Role != planner.RoleInvestigation && s.Role != planner.RoleRecovery && inTrouble(s)
	})
	if i < 0 {
		return recommendation{}, false
	}
	o := recommendation{
		reason:         fmt.Sprintf("%s of its group %s", c.Siblings[i].Name, symptom(c.Siblings[i])),
		confidence:     0.8,
		nextAnalysisIn: bounded(c.Usual/watchFaster, 15*time.Second, 5*time.Minute),
	}
	idle := len(c.Outcomes) == 0 || c.At.Sub(c.Outcomes[0].StartedAt) >= alertEvery
	switch role {
	case planner.RoleHealth:
		o.interval, o.reason = c.Usual/watchFaster, o.reason+": its health is watched closely"
	case planner.RoleInvestigation:
		o.interval, o.runOnce, o.reason = c.Usual/watchFaster, idle, o.reason+": evidence is gathered"
	case planner.RoleRecovery:
		o.keepHints, o.runOnce, o.reason = true, idle, o.reason+": it runs its repair, at most every "+formatDuration(alertEvery)
	case planner.RoleAlert:
		o.keepHints, o.runOnce, o.reason = true, idle, o.reason+": it sends its alert, at most every "+formatDuration(alertEvery)
	}
	return o, true
}

func inTrouble(s planner.Sibling) bool {
	return !s.Paused && (s.FailureCount > 0 || s.Slowdown.Present())
}

func symptom(s planner.Sibling) string {
	if s.FailureCount > 0 {
		return fmt.Sprintf("fails (%d in a row)", s.FailureCount)
	}
	return fmt.Sprintf("answers %.1f times slower than usual", s.Slowdown.Factor)
}

// slow polls a slow target more often, because slowness may precede an outage. The rate is at most
// doubled, because requests add load. If many endpoints of several hosts are slow together, the
// scheduler is loaded and the rule does not apply.
func slow(c planner.Snapshot) (recommendation, bool) {
	if !c.Slowdown.Present() || c.FleetSlowdown.SchedulerLoaded() {
		return recommendation{}, false
	}
	return recommendation{
		interval:       c.Usual / recoverFaster,
		reason:         fmt.Sprintf("it answers %.1f times slower than usual: watched for what comes of it", c.Slowdown.Factor),
		confidence:     0.6,
		nextAnalysisIn: bounded(4*c.Usual, 15*time.Second, 5*time.Minute),
	}, true
}

// changing proposes the interval of the rate of change, for an endpoint whose tempo does not follow
// it: it has a cron, or the planner may only suggest. A hint is reviewed by the next analysis only,
// not after every run, so it stays closer to the usual interval. An endpoint with a role is never
// slowed down.
func changing(c planner.Snapshot) (recommendation, bool) {
	if c.ByChanges <= 0 || c.ByChanges > c.Usual && hasRole(c) {
		return recommendation{}, false
	}
	wanted := bounded(c.ByChanges, c.Usual/mostFaster, mostSlower*c.Usual)
	o := recommendation{
		detail:         fmt.Sprintf("about %.3g changes per hour", c.ChangeRate*time.Hour.Seconds()),
		confidence:     0.7,
		nextAnalysisIn: bounded(6*c.Tempo, 15*time.Second, 30*time.Minute),
	}
	switch {
	case isNear(wanted, c.Usual):
		o.reason = "its answers change about as often as its usual interval suits"
	case wanted > c.Usual:
		o.interval, o.reason = wanted, "its answers change seldom, so fewer runs find their changes as well"
	default:
		o.interval, o.reason = wanted, "its answers change often, so more runs find their changes sooner"
	}
	return o, true
}

// isNear reports whether an interval is so close to the usual one that it needs no hint.
func isNear(a, b time.Duration) bool {
	ratio := float64(a) / float64(max(b, 1))
	return ratio > 0.67 && ratio < 1.5
}

// calm restores the baseline.
func calm(c planner.Snapshot) recommendation {
	return recommendation{
		reason:         "nothing speaks for another tempo than the usual one",
		confidence:     0.8,
		nextAnalysisIn: bounded(6*c.Usual, 30*time.Second, 30*time.Minute),
	}
}
