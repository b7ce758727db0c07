package planner

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/governor"
)

// Guardrails are the limits of a planner, for every advisor. They are enforced in code, because a
// prompt cannot enforce anything. Two limits hold beside them: hints end within
// [endpoints.MaxHintLife], for every author, and [endpoints.MaxPlannerPause] bounds pauses.
type Guardrails struct {
	// MaxStep is the largest factor between the interval in force and a proposed one. A larger step
	// is cut to it.
	MaxStep float64
	// MinStep is the smallest factor that counts as a change. A smaller step only renews the hint
	// in force.
	MinStep float64
	// Dwell is the least time between two changes of the interval. It is doubled for a change of
	// direction, so that the interval does not oscillate.
	Dwell time.Duration
	// ChangesPerHour limits the changes of an endpoint: intervals, single runs and pauses together.
	ChangesPerHour int
	// MinGap is the least time between two analyses.
	MinGap time.Duration
	// MaxGap is the most time until the next analysis.
	MaxGap time.Duration
	// AnalysesPerHour limits the analyses of an endpoint.
	AnalysesPerHour int
}

// DefaultGuardrails returns the limits of a planner without configuration.
func DefaultGuardrails() Guardrails {
	return Guardrails{
		MaxStep:         4,
		MinStep:         1.2,
		Dwell:           time.Minute,
		ChangesPerHour:  12,
		MinGap:          30 * time.Second,
		MaxGap:          24 * time.Hour,
		AnalysesPerHour: 12,
	}
}

// proposalContext is the state that a proposal is checked against: an endpoint at an instant, and
// the planner's memory of it.
type proposalContext struct {
	now      time.Time
	endpoint *endpoints.Endpoint
	memory   Memory
	tempo    time.Duration // in force
	usual    time.Duration // without hint and backoff
	holds    []endpoints.Hold
	// tainted reports that the session has read a sibling's response.
	tainted bool
}

func newProposalContext(e *endpoints.Endpoint, m Memory, now time.Time) (proposalContext, error) {
	tempo, err := e.Tempo(now)
	if err != nil {
		return proposalContext{}, err
	}
	usual, err := e.Usual(now)
	return proposalContext{
		now:      now,
		endpoint: e,
		memory:   m.pruned(now),
		tempo:    tempo,
		usual:    usual,
	}, err
}

// RequestsPerHour returns the most runs that can become due within an hour at an endpoint in the
// planner's control: one per shortest interval, one per change, and one at the edge of the hour.
// Retries of a retry policy come on top.
func (r Guardrails) RequestsPerHour(minInterval, usual time.Duration) int {
	fastest, _ := governor.PlannerBounds(usual, minInterval, 0)
	shortest := min(fastest, max(usual, time.Second))
	return int(time.Hour/shortest) + 1 + r.ChangesPerHour
}

// evaluate returns the plan as it may come into force now, or the reason for its refusal. It runs
// when a proposal is made, and again in the transaction that writes it, because the endpoint may
// change in between.
func (r Guardrails) evaluate(s proposalContext, p Plan) (Plan, ProposalResult, error) {
	if s.endpoint.Archived() || s.endpoint.PausedAt(s.now) {
		return p, ProposalResult{}, errs.New(errs.Conflict, "left_alone", "the endpoint is paused or archived, and the planner leaves it alone")
	}
	for _, check := range []func(Plan) error{s.checkForeignHint, s.checkHolds, s.checkTainted, s.checkExtraRun, s.checkClear} {
		if err := check(p); err != nil {
			return p, ProposalResult{}, err
		}
	}
	if h := p.NextRun; h != nil {
		if err := checkNextRun(*h); err != nil {
			return p, ProposalResult{}, err
		}
	}
	var err error
	if p.Pause, err = s.fitPause(p.Pause); err != nil {
		return p, ProposalResult{}, err
	}
	var ruling ProposalResult
	if p.Interval != nil {
		fixed, said, err := r.fitInterval(s, *p.Interval)
		if err != nil {
			return p, ProposalResult{}, err
		}
		p.Interval, ruling = &fixed, said
	}
	if err := s.checkMaxInterval(p); err != nil {
		return p, ProposalResult{}, err
	}
	return p, ruling, r.checkRate(s, p)
}

// checkClear refuses to clear hints if there are none and the plan changes nothing else.
func (s proposalContext) checkClear(p Plan) error {
	if p.Clear && s.endpoint.State.IntervalHint == nil && s.endpoint.State.OneShotHint == nil && p.Interval == nil && p.NextRun == nil {
		return errs.New(errs.Conflict, "nothing_to_change", "there is no hint to forget")
	}
	return nil
}

// checkForeignHint refuses to replace a hint of another author while it is in force, because only
// its author knows why it was set.
func (s proposalContext) checkForeignHint(p Plan) error {
	state := s.endpoint.State
	for hint, touched := range map[*endpoints.Hint]bool{state.IntervalHint: p.Clear || p.Interval != nil, state.OneShotHint: p.Clear || p.NextRun != nil} {
		if hint != nil && touched && hint.ExpiresAt.After(s.now) && !strings.HasPrefix(hint.Author, author("")) {
			return errs.New(errs.Conflict, "personal_hint", "a hint that is not the planner's is in force; it stays until it ends")
		}
	}
	return nil
}

// checkHolds refuses a kind of change that a person cleared, undid or rejected within the hold
// time.
func (s proposalContext) checkHolds(p Plan) error {
	for _, h := range s.holds {
		touched := map[string]bool{
			endpoints.HoldInterval: p.Interval != nil, endpoints.HoldOneShot: p.NextRun != nil, endpoints.HoldPause: p.Pause != nil,
		}
		if touched[h.Kind] && h.Until.After(s.now) {
			return errs.New(errs.Conflict, "person_said_no", fmt.Sprintf("%s removed or rejected a change of this kind (%s); the planner makes none before %s",
				h.By, h.Kind, h.Until.UTC().Format(time.RFC3339)))
		}
	}
	return nil
}

// checkTainted refuses a pause or a longer interval in a session that has read a sibling's
// response. Otherwise the sibling's target could silence another endpoint by prompt injection.
// Clearing a planner hint that makes the endpoint faster counts as a longer interval.
func (s proposalContext) checkTainted(p Plan) error {
	if !s.tainted {
		return nil
	}
	longer := p.Interval != nil && (p.Interval.Interval > s.tempo || p.Interval.Interval > s.usual) ||
		p.Interval == nil && p.Clear && s.tempo < s.usual
	if p.Pause == nil && !longer {
		return nil
	}
	return errs.New(errs.Conflict, "tainted", "this session has read the answer of a sibling, so it can neither pause the endpoint nor make its interval longer")
}

// checkExtraRun refuses a single run unless minIntervalMs or a role permits more runs than the
// baseline.
func (s proposalContext) checkExtraRun(p Plan) error {
	spec := s.endpoint.Spec
	if p.NextRun == nil || spec.MinInterval > 0 || slices.Contains(Roles(), spec.Labels[RoleLabel]) {
		return nil
	}
	return errs.New(errs.Conflict, "no_minimum", "without minIntervalMs or a role the endpoint is never called more often than its baseline says")
}

// checkNextRun validates the fields of a proposed single run.
func checkNextRun(p NextRunProposal) error {
	err := endpoints.HintRequest{
		In:     &p.In,
		TTL:    &p.TTL,
		Reason: p.Reason,
	}.CheckOneShot(time.Unix(0, 0))
	bad := append([]errs.Field{}, errs.FieldsOf(err)...)
	if p.In >= p.TTL && p.TTL > 0 {
		bad = append(bad, errs.Field{
			Field:   "ttlMs",
			Code:    "out_of_range",
			Message: "must be longer than inMs, else the hint ends before its run",
		})
	}
	return errs.InvalidFields(bad)
}

// latestRun returns the instant by which maxIntervalMs requires the next run; ok is false if there
// is no maximum. The governor lets a pause exceed it, but only for people.
func (s proposalContext) latestRun() (at time.Time, ok bool) {
	last := s.endpoint.State.Anchor
	if last.IsZero() { // never run: count from now
		last = s.now
	}
	return last.Add(s.endpoint.Spec.MaxInterval), s.endpoint.Spec.MaxInterval > 0
}

// fitPause shortens a pause to the pause quota and to maxIntervalMs. It returns an error if nothing
// useful is left.
func (s proposalContext) fitPause(p *PauseProposal) (*PauseProposal, error) {
	if p == nil {
		return nil, nil //nolint:nilnil // No pause is no error.
	}
	if err := endpoints.CheckPlannerPause(p.For, p.Reason); err != nil {
		return p, err
	}
	fixed := *p
	for {
		end := s.now.Add(fixed.For)
		left := pauseWindow/4 - s.memory.pausedWithin(end.Add(-pauseWindow), end)
		if left >= fixed.For {
			break
		}
		if fixed.For = left.Truncate(time.Second); fixed.For < time.Second {
			return nil, errs.New(errs.Conflict, "paused_enough", "the planner has used its quota of pauses: a quarter of any four hours")
		}
	}
	if latest, ok := s.latestRun(); ok {
		fixed.For = min(p.For, latest.Add(-s.endpoint.Spec.Jitter).Sub(s.now).Truncate(time.Second))
	}
	return &fixed, nil
}

// checkMaxInterval refuses a pause after which the next due time would exceed maxIntervalMs. That
// happens if too little time is left, or if a cron has no occurrence between the pause and the
// limit.
func (s proposalContext) checkMaxInterval(p Plan) error {
	latest, ok := s.latestRun()
	if p.Pause == nil || !ok {
		return nil
	}
	after := *s.endpoint
	after.State.Running = nil // a due time is only decided without a live run
	if p.Pause.For >= time.Second {
		if _, err := after.ApplyAdvice(s.now, endpoints.Actor{}, author(""), p.advice()); err != nil {
			return err
		}
		if !after.State.Due.At.After(latest) {
			return nil
		}
	}
	return errs.New(errs.Conflict, "no_room", "maxIntervalMs leaves no room for a pause")
}

// fitInterval returns the proposed interval within all limits. The result's note lists the limits
// that changed it.
func (r Guardrails) fitInterval(s proposalContext, p IntervalProposal) (IntervalProposal, ProposalResult, error) {
	request := endpoints.HintRequest{
		Interval: p.Interval,
		TTL:      &p.TTL,
		Reason:   p.Reason,
	}
	if err := request.CheckInterval(s.now); err != nil {
		return p, ProposalResult{}, err
	}
	var notes []string
	bound := func(limit time.Duration, beyond bool, why string) {
		if beyond {
			p.Interval = limit.Truncate(time.Millisecond)
			notes = append(notes, fmt.Sprintf("%s makes it %s", why, p.Interval))
		}
	}
	if s.tempo > 0 {
		shortest, longest := scale(s.tempo, 1/r.MaxStep), scale(s.tempo, r.MaxStep)
		bound(shortest, p.Interval < shortest, "the longest step")
		bound(longest, p.Interval > longest, "the longest step")
	}
	floor, longest := governor.PlannerBounds(s.usual, s.endpoint.Spec.MinInterval, s.endpoint.Spec.MaxInterval)
	bound(floor, p.Interval < floor, "the shortest interval")
	if most := s.endpoint.Spec.MaxInterval; most > 0 {
		bound(most, p.Interval > most, "maxIntervalMs")
	} else if most := max(longest, floor); s.usual > 0 {
		bound(most, p.Interval > most, "the longest interval without maxIntervalMs")
	}
	if r.isRenewal(s.tempo, p.Interval) && p.OutageSince.IsZero() {
		if !s.hasHint() {
			return p, ProposalResult{}, errs.New(errs.Conflict, "nothing_to_change", fmt.Sprintf("it runs every %s already; a change is one of at least %.3gx", s.tempo, r.MinStep))
		}
		bound(s.tempo, p.Interval != s.tempo, "so small a step only renews the hint, which")
	}
	return p, ProposalResult{Interval: p.Interval, Note: strings.Join(notes, "; ")}, nil
}

// checkRate refuses changes that exceed the hourly quota or come before the dwell time is over.
func (r Guardrails) checkRate(s proposalContext, p Plan) error {
	n, direction := s.countChanges(p)
	if n == 0 {
		return nil
	}
	if len(s.memory.Changes)+n > r.ChangesPerHour {
		return errs.New(errs.Conflict, "too_many_changes", fmt.Sprintf("the planner has used its quota of %d changes an hour for this endpoint", r.ChangesPerHour))
	}
	outage := p.Interval != nil && !p.Interval.OutageSince.IsZero() // An outage hint ends by itself, so it needs no dwell time.
	if direction == 0 || len(s.memory.Changes) == 0 || outage {
		return nil
	}
	dwell := r.Dwell
	if s.memory.Direction == -direction {
		dwell *= 2
	}
	if since := s.now.Sub(s.memory.Changes[len(s.memory.Changes)-1]); since < dwell {
		return errs.New(errs.Conflict, "too_soon", fmt.Sprintf("the tempo was changed %s ago; the next change may come after %s", since.Truncate(time.Second), dwell))
	}
	return nil
}

// countChanges returns the number of changes of a plan, and whether the interval gets longer (1) or
// shorter (-1). Renewing a hint is no change.
func (s proposalContext) countChanges(p Plan) (n, direction int) {
	for _, there := range []bool{p.NextRun != nil, p.Pause != nil} {
		if there {
			n++
		}
	}
	target := s.tempo
	switch {
	case p.Interval != nil:
		target = p.Interval.Interval
	case p.Clear:
		n++
		target = s.usual
	}
	if target == s.tempo || s.tempo == 0 || target == 0 {
		return n, 0
	}
	if p.Interval != nil {
		n++
	}
	if target < s.tempo {
		return n, -1
	}
	return n, 1
}

// hasHint reports whether an interval hint is in force.
func (s proposalContext) hasHint() bool {
	h := s.endpoint.State.IntervalHint
	return h != nil && h.ExpiresAt.After(s.now)
}

// isRenewal reports whether two intervals differ by less than MinStep.
func (r Guardrails) isRenewal(a, b time.Duration) bool {
	return a > 0 && b < scale(a, r.MinStep) && b > scale(a, 1/r.MinStep)
}

// scale multiplies a duration without overflow.
func scale(d time.Duration, by float64) time.Duration {
	return time.Duration(min(float64(d)*by, float64(math.MaxInt64/2)))
}

// nextAnalysis returns the time of the next analysis, and the earliest time at which a change of
// the endpoint may trigger one.
func (r Guardrails) nextAnalysis(m Memory, now time.Time, in time.Duration) (next, notBefore time.Time) {
	notBefore = now.Add(r.MinGap)
	if n := len(m.Analyses); n >= r.AnalysesPerHour {
		notBefore = later(notBefore, m.Analyses[n-r.AnalysesPerHour].Add(rateWindow))
	}
	if in <= 0 {
		in = 5 * time.Minute
	}
	return later(notBefore, now.Add(min(max(in, r.analysisInterval()), r.MaxGap))), notBefore
}

// analysisInterval returns the least time between analyses that the clock triggers. They use at
// most half of the hourly quota, so that the rest remains for changes of the endpoint.
func (r Guardrails) analysisInterval() time.Duration {
	return max(r.MinGap, 2*rateWindow/time.Duration(max(1, r.AnalysesPerHour)))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
