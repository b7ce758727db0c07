package planner

import (
	"cmp"
	"slices"
	"time"

	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/runs"
	"rubato/internal/tempo"
)

// The labels that the planner reads.
const (
	// GroupLabel groups endpoints: those of one tenant with the same value are siblings.
	GroupLabel = "group"
	// RoleLabel is the endpoint's role in its group; see package heuristic.
	RoleLabel = "role"
)

// The roles of an endpoint in its group. An endpoint with a role is analysed when another endpoint
// of the group begins or ceases to fail.
const (
	// RoleHealth checks a dependency of the group.
	RoleHealth = "health"
	// RoleInvestigation collects diagnostics while the group is in trouble.
	RoleInvestigation = "investigation"
	// RoleRecovery runs a repair when the group gets into trouble.
	RoleRecovery = "recovery"
	// RoleAlert sends an alert when the group is in trouble.
	RoleAlert = "alert"
)

// Roles returns every role.
func Roles() []string { return []string{RoleHealth, RoleInvestigation, RoleRecovery, RoleAlert} }

// SiblingSample is the maximum number of runs in a sibling's health.
const SiblingSample = 100

// windows returns the health windows.
func windows() []time.Duration { return []time.Duration{time.Hour, 4 * time.Hour, 24 * time.Hour} }

// NewSnapshot builds the input of an advisor.
func NewSnapshot(m Inputs, t Claim) (Snapshot, error) {
	e, s := m.Endpoint, m.Endpoint.State
	interval, err := e.Tempo(m.Now)
	if err != nil {
		return Snapshot{}, err
	}
	usual, err := e.Usual(m.Now)
	if err != nil {
		return Snapshot{}, err
	}
	c := Snapshot{
		Account: t.Account,
		At:      m.Now,
		Version: e.Version,
		Trigger: t.Trigger,
		Key:     e.Spec.Key,
		Name:    e.Spec.Name,
		Method:  e.Spec.Method,
		Policy:  e.Spec.Description,
		Labels:  e.Spec.Labels,
		Baseline: Baseline{
			Interval: e.Spec.BaselineInterval,
			Cron:     e.Spec.BaselineCron,
			Timezone: e.Spec.Timezone,
		},
		Min:          e.Spec.MinInterval,
		Max:          e.Spec.MaxInterval,
		Tempo:        interval,
		Usual:        usual,
		Paced:        e.FollowsChanges(),
		NextRunAt:    s.Due.At,
		IntervalHint: s.IntervalHint,
		OneShotHint:  s.OneShotHint,
		PausedUntil:  s.PausedUntil,
		PauseReason:  s.PauseReason,
		RetryAfter:   s.RetryAfter,
		FailureCount: s.FailureCount,
		Last:         t.Memory.Last,
	}
	if c.Last != nil && c.Last.Tainted { // A sibling's response may have written it, so it is not shown again.
		c.Last = new(*c.Last)
		c.Last.Reasoning = ""
	}
	digests := digestsOf(m.Runs)
	c.Health = func() []Health { return healthsOf(m, digests) }
	if c.ByChanges, c.ChangeRate, err = byChanges(m, digests, usual); err != nil {
		return Snapshot{}, err
	}
	c.Slowdown, c.FleetSlowdown = SlowdownOf(m.Runs), m.FleetSlowdown
	_, slowest := governor.PlannerBounds(usual, e.Spec.MinInterval, e.Spec.MaxInterval)
	c.RateLimitInterval = rateLimitInterval(m.Runs, usual, slowest)
	for i, run := range m.Runs[:min(len(m.Runs), MaxOutcomes)] {
		c.Outcomes = append(c.Outcomes, outcomeOf(run, digests[i]))
	}
	for _, fellow := range m.Siblings[:min(len(m.Siblings), MaxSiblings)] {
		sibling, err := siblingOf(fellow, m.Now)
		if err != nil {
			return Snapshot{}, err
		}
		c.Siblings = append(c.Siblings, sibling)
	}
	return c, nil
}

// byChanges returns the interval and the rate that the runs give by the rate filter and the index
// law; zero if the tempo follows them already, or if too little is known. Without a change among
// the runs the interval is not shorter than the usual one, because the assumption that the filter
// starts with is no reason to send more requests.
func byChanges(m Inputs, digests []uint64, usual time.Duration) (interval time.Duration, rate float64, err error) {
	if m.Endpoint.FollowsChanges() {
		return 0, 0, nil
	}
	var answers []uint64
	for i := range m.Runs {
		if m.Runs[i].Outcome.Status == runs.Succeeded {
			answers = append(answers, digests[i])
		}
	}
	compared, changed := comparisons(answers)
	if compared < EnoughComparisons {
		return 0, 0, nil
	}
	pace, err := m.Endpoint.Pace(m.Now, tempo.LooksOf(m.Runs))
	if err != nil || !pace.Known {
		return 0, 0, err
	}
	if changed == 0 {
		return max(pace.Wait, usual), pace.Rate, nil
	}
	return pace.Wait, pace.Rate, nil
}

// healthsOf returns the health over each window.
func healthsOf(m Inputs, digests []uint64) []Health {
	list := make([]Health, 0, len(windows()))
	for _, window := range windows() {
		h := healthOf(m.Runs, digests, m.Now.Add(-window))
		h.Window = window
		list = append(list, h)
	}
	return list
}

func siblingOf(f SiblingHistory, now time.Time) (Sibling, error) {
	e := f.Endpoint
	interval, err := e.Tempo(now)
	s := Sibling{
		ID:           e.ID,
		Name:         e.Spec.Name,
		Role:         e.Spec.Labels[RoleLabel],
		Paused:       e.PausedAt(now),
		FailureCount: e.State.FailureCount,
		Tempo:        interval,
		NextRunAt:    e.State.Due.At,
		Health:       healthOf(f.Runs, digestsOf(f.Runs), now.Add(-time.Hour)),
		Slowdown:     SlowdownOf(f.Runs),
	}
	s.Health.Window = time.Hour
	if e.State.LastRun != nil {
		s.Status = e.State.LastRun.Status
	}
	return s, err
}

func outcomeOf(run runs.Run, digest uint64) Outcome {
	return Outcome{
		StartedAt:  run.StartedAt,
		Status:     string(run.Outcome.Status),
		Reason:     string(run.Outcome.Reason),
		StatusCode: run.Outcome.StatusCode,
		Latency:    latencyOf(run),
		Bytes:      run.Outcome.ResponseBytes,
		Digest:     digest,
		Source:     run.Source,
	}
}

func latencyOf(run runs.Run) time.Duration {
	p := run.Outcome.Phases
	return p.DNS + p.Connect + p.TLS + p.Wait + p.Transfer
}

// healthOf aggregates the runs that ended after an instant. digests are those of their responses,
// by the same index.
func healthOf(list []runs.Run, digests []uint64, since time.Time) (h Health) {
	var latencies []time.Duration
	var answers []uint64
	for i := range list {
		run := &list[i]
		if !run.FinishedAt.After(since) {
			continue
		}
		h.Runs++
		switch {
		case run.Outcome.Status == runs.Succeeded:
			h.Succeeded++
			answers = append(answers, digests[i])
		case run.Outcome.CountsAsFailure():
			h.Failed++
		}
		if run.Outcome.StatusCode > 0 {
			latencies = append(latencies, latencyOf(*run))
		}
	}
	slices.Sort(latencies)
	h.P50, h.P95, h.P99 = percentile(latencies, 50), percentile(latencies, 95), percentile(latencies, 99)
	h.Compared, h.Changed = comparisons(answers)
	return h
}

// percentile returns the nearest-rank percentile of sorted values; 0 if there are none.
func percentile(sorted []time.Duration, n int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)*n+99)/100-1]
}

// VisibleToAdvisor reports whether an advisor may see the name, state or responses of an endpoint:
// it is not archived and its planner is not off. The rule holds for the endpoint and for siblings
// alike.
func VisibleToAdvisor(e *endpoints.Endpoint) bool { return !e.Archived() && authorityOf(e) != Off }

// authorityOf returns the planner's authority over an endpoint, observe by default.
func authorityOf(e *endpoints.Endpoint) Authority { return cmp.Or(e.Spec.Planner, Observe) }
