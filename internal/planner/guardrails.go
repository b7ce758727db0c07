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

// Rails are the bounds of what a planner may do, whoever advises it. They hold in code, not in a prompt. That a hint has an end within
// [endpoints.MaxHintLife] holds for everybody who writes one; [endpoints.MaxPlannerPause] bounds pauses.
type Guardrails struct {
	MaxStep         float64       // how many times longer or shorter a proposed interval may be than what is in force; more is cut to it
	MinStep         float64       // how many times longer or shorter it has to be to be a change; less only renews what is in force
	Dwell           time.Duration // least time between two changes of the interval; twice this to turn back
	ChangesPerHour  int           // of an endpoint: of its interval, single runs, and pauses
	MinGap          time.Duration // least time between two analyses
	MaxGap          time.Duration // most time to the next analysis
	AnalysesPerHour int           // analyses of an endpoint
}

// DefaultRails are those of a planner that nobody configured.
func DefaultGuardrails() Guardrails {
	return Guardrails{
		MaxStep: 4, MinStep: 1.2, Dwell: time.Minute, ChangesPerHour: 12,
		MinGap: 30 * time.Second, MaxGap: 24 * time.Hour, AnalysesPerHour: 12,
	}
}

// standing is what a proposal is judged against: an endpoint at an instant, and what the planner did to it before.
type proposalContext struct {
	now      time.Time
	endpoint *endpoints.Endpoint
	memory   Memory
	tempo    time.Duration // in force
	usual    time.Duration // without hint and backoff
	holds    []endpoints.Hold
	tainted  bool // the session has read an answer of a sibling
}

func newProposalContext(e *endpoints.Endpoint, m Memory, now time.Time) (proposalContext, error) {
	tempo, err := e.Tempo(now)
	if err != nil {
		return proposalContext{}, err
	}
	usual, err := e.Usual(now)
	return proposalContext{now: now, endpoint: e, memory: m.pruned(now), tempo: tempo, usual: usual}, err
}

// RequestsPerHour returns the most runs that may become due within an hour for an endpoint that the planner steers: one at each step of the
// shortest interval, one for each change, and one at the hour's edge. Attempts that a retry policy adds come on top.
func (r Guardrails) RequestsPerHour(minInterval, usual time.Duration) int {
	fastest, _ := governor.PlannerBounds(usual, minInterval, 0)
	shortest := min(fastest, max(usual, time.Second))
	return int(time.Hour/shortest) + 1 + r.ChangesPerHour
}

// judge returns a plan as it may come into force now, or why it may not. It is asked when something is proposed, and again in the
// transaction that writes it.
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

// cleared refuses to clear hints where there are none, and nothing else is asked for.
func (s proposalContext) checkClear(p Plan) error {
	if p.Clear && s.endpoint.State.IntervalHint == nil && s.endpoint.State.OneShotHint == nil && p.Interval == nil && p.NextRun == nil {
		return errs.New(errs.Conflict, "nothing_to_change", "there is no hint to forget")
	}
	return nil
}

// personal refuses to touch a hint that somebody else wrote, as long as it is in force: whoever wrote it knows why.
func (s proposalContext) checkForeignHint(p Plan) error {
	state := s.endpoint.State
	for hint, touched := range map[*endpoints.Hint]bool{state.IntervalHint: p.Clear || p.Interval != nil, state.OneShotHint: p.Clear || p.NextRun != nil} {
		if hint != nil && touched && hint.ExpiresAt.After(s.now) && !strings.HasPrefix(hint.Author, author("")) {
			return errs.New(errs.Conflict, "personal_hint", "a hint that is not the planner's is in force; it stays until it ends")
		}
	}
	return nil
}

// held refuses what a person cleared, undid or rejected a while ago.
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

// untouched refuses a session that has read an answer of a sibling to hold an endpoint back: the sibling's target may have written the
// proposal, and must not silence others. A hint of the planner's that makes an endpoint faster counts as its tempo here.
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

// unasked refuses a single run where neither minIntervalMs nor a role says that more runs than the baseline's are wanted.
func (s proposalContext) checkExtraRun(p Plan) error {
	spec := s.endpoint.Spec
	if p.NextRun == nil || spec.MinInterval > 0 || slices.Contains(Roles(), spec.Labels[RoleLabel]) {
		return nil
	}
	return errs.New(errs.Conflict, "no_minimum", "without minIntervalMs or a role the endpoint is never called more often than its baseline says")
}

// checkNextRun returns what is wrong with a single run by itself.
func checkNextRun(p NextRunProposal) error {
	err := endpoints.HintRequest{In: &p.In, TTL: &p.TTL, Reason: p.Reason}.CheckOneShot(time.Unix(0, 0))
	bad := append([]errs.Field{}, errs.FieldsOf(err)...)
	if p.In >= p.TTL && p.TTL > 0 {
		bad = append(bad, errs.Field{Field: "ttlMs", Code: "out_of_range", Message: "must be longer than inMs, else the hint ends before its run"})
	}
	return errs.InvalidFields(bad)
}

// latest returns by when maxIntervalMs has the endpoint run again; ok is false where there is none. The governor lets pauses go beyond that,
// for the people who ask for them.
func (s proposalContext) latestRun() (at time.Time, ok bool) {
	last := s.endpoint.State.Anchor
	if last.IsZero() { // It has never run: there is no run to count from.
		last = s.now
	}
	return last.Add(s.endpoint.Spec.MaxInterval), s.endpoint.Spec.MaxInterval > 0
}

// pause returns a pause as it may be, if there is one: cut to what maxIntervalMs leaves room for.
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
			return nil, errs.New(errs.Conflict, "paused_enough", "the planner may pause an endpoint for a quarter of any four hours, and has")
		}
	}
	if latest, ok := s.latestRun(); ok {
		fixed.For = min(p.For, latest.Add(-s.endpoint.Spec.Jitter).Sub(s.now).Truncate(time.Second))
	}
	return &fixed, nil
}

// silence refuses a plan with a pause that would keep the endpoint from running for longer than maxIntervalMs: there may be no time left, or
// no occurrence of a cron between the end of the pause and then.
func (s proposalContext) checkMaxInterval(p Plan) error {
	latest, ok := s.latestRun()
	if p.Pause == nil || !ok {
		return nil
	}
	after := *s.endpoint
	after.State.Running = nil // Nothing is decided while a run is live.
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

// interval returns an interval as it may be, with a note of what differs from the proposal.
func (r Guardrails) fitInterval(s proposalContext, p IntervalProposal) (IntervalProposal, ProposalResult, error) {
	request := endpoints.HintRequest{Interval: p.Interval, TTL: &p.TTL, Reason: p.Reason}
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

// pace refuses changes that come too fast after one another.
func (r Guardrails) checkRate(s proposalContext, p Plan) error {
	n, direction := s.countChanges(p)
	if n == 0 {
		return nil
	}
	if len(s.memory.Changes)+n > r.ChangesPerHour {
		return errs.New(errs.Conflict, "too_many_changes", fmt.Sprintf("the planner may change an endpoint %d times an hour, and has", r.ChangesPerHour))
	}
	outage := p.Interval != nil && !p.Interval.OutageSince.IsZero() // It makes way for nothing, and ends by itself.
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

// counts returns how many changes a plan makes, and whether it makes the interval longer (1) or shorter (-1). A hint that is only renewed
// is none.
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

// hinted reports whether an interval hint is in force.
func (s proposalContext) hasHint() bool {
	h := s.endpoint.State.IntervalHint
	return h != nil && h.ExpiresAt.After(s.now)
}

// near reports whether two intervals are so close that changing from one to the other is not worth it.
func (r Guardrails) isRenewal(a, b time.Duration) bool {
	return a > 0 && b < scale(a, r.MinStep) && b > scale(a, 1/r.MinStep)
}

// scale multiplies a duration, without overflow.
func scale(d time.Duration, by float64) time.Duration {
	return time.Duration(min(float64(d)*by, float64(math.MaxInt64/2)))
}

// again returns when an endpoint is analysed next, and before when nothing makes it be.
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

// lookEvery returns the least time between looks by the clock. They take half of the hour's analyses at most: the others are for what happens.
func (r Guardrails) analysisInterval() time.Duration {
	return max(r.MinGap, 2*rateWindow/time.Duration(max(1, r.AnalysesPerHour)))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
