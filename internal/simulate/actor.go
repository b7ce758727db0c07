package simulate

import (
	"fmt"
	"hash/fnv"
	"math/bits"
	"math/rand/v2"
	"net/http"
	"time"

	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/planner"
	"rubato/internal/runs"
	"rubato/internal/store/history"
)

// never is later than the end of every simulation.
const never = time.Duration(1<<63 - 1)

// actor is an endpoint in a world. Times are since the beginning.
type actor struct {
	endpoint *endpoints.Endpoint
	target   target
	// noise is nil if the answers of the target have none.
	noise *noiseSearch
	// fixed is the interval of a policy without governor; 0: the governor decides.
	fixed time.Duration
	// due is the next start, or never during a run.
	due time.Duration
	// finish is the end of the run in flight; never: none.
	finish time.Duration
	run    runs.Run

	// evidence is nil if the planner does not act on the endpoint.
	evidence *evidence
	// analysis is the time of the next analysis, or never.
	analysis  time.Duration
	notBefore time.Duration
	memory    planner.Memory
	// streak is the length of the failure count in bits, whose change triggers an analysis.
	streak int
	status string

	tally
	// counted are the polls that moved the price of a shared budget.
	counted    int64
	started    time.Duration // of the last run
	everRan    bool
	undetected int // index of the first change without detection
	// recovered is the number of outages whose end was seen, and failed counts the requests since.
	recovered int
	failed    int64
	pace      pace
}

// pace is the tempo in force apart from the baseline.
type pace struct {
	hint, changeRate time.Duration
}

// newTarget returns the target of an endpoint. It is the same under each policy.
func newTarget(e *Endpoint, seed uint64, length time.Duration) target {
	h := fnv.New64a()
	_, _ = h.Write([]byte(e.Name)) // A hash never fails.
	own := mix(h.Sum64() ^ mix(seed))
	luck := rand.New(rand.NewPCG(own, seed)) //nolint:gosec // A simulation must be reproducible.
	t := target{
		Target:  e.Target,
		content: e.Process.content(luck, length),
		begin:   begin,
		seed:    own,
		told:    -1,
	}
	if e.Target.OutageEvery > 0 {
		t.phase = time.Duration(luck.Int64N(int64(e.Target.OutageEvery)))
	}
	return t
}

// newActor returns an endpoint with a policy and a target.
func newActor(p *Policy, t target, length time.Duration) (*actor, error) {
	a := &actor{
		target:   t,
		finish:   never,
		analysis: never,
	}
	if len(t.Noise) > 0 {
		a.noise = newNoiseSearch(&p.Spec)
	}
	a.changes = int64(len(a.target.changes))
	a.hours = make([]int64, (length+time.Hour-1)/time.Hour)
	if p.Fixed {
		a.fixed = p.Spec.BaselineInterval
		a.endpoint = &endpoints.Endpoint{Spec: p.Spec}
		return a, nil
	}
	a.endpoint = &endpoints.Endpoint{
		Version:   1,
		CreatedAt: t.begin,
		Spec:      p.Spec,
		Terse:     true,
	}
	for i := range 8 {
		a.endpoint.ID[i] = byte(t.seed >> (8 * i))
	}
	cron, err := p.Spec.ParseCron(a.endpoint.ID)
	if err != nil {
		return nil, fmt.Errorf("parsing the cron of %s: %w", p.Spec.Name, err)
	}
	a.endpoint.Cron = cron
	if _, err := a.endpoint.Replan(t.begin); err != nil {
		return nil, fmt.Errorf("planning %s: %w", p.Spec.Name, err)
	}
	a.due = a.endpoint.State.Due.At.Sub(t.begin)
	if p.Spec.Planner == endpoints.PlannerAct { // With less authority, an analysis changes nothing.
		a.evidence = newEvidence()
		a.analysis = analysisDelay
	}
	return a, nil
}

// start sends a request.
func (a *actor) start(now time.Duration) {
	o := a.target.answer(now)
	if a.noise != nil && o.Status == runs.Succeeded {
		a.noise.look(&o, &a.target, now)
	}
	a.score(now, &o)
	if a.fixed > 0 {
		a.due = now + a.fixed
		return
	}
	due := a.endpoint.State.Due
	started := a.target.begin.Add(now)
	a.run = runs.Run{
		EndpointID:   a.endpoint.ID,
		ScheduledFor: due.Slot,
		Attempt:      due.Attempt,
		InfraAttempt: due.InfraAttempt,
		Source:       string(due.Source),
		StartedAt:    started,
		FinishedAt:   started.Add(a.target.Latency),
		Outcome:      o,
	}
	a.due, a.finish = never, now+a.target.Latency
}

// score counts a run and the changes that it detects.
func (a *actor) score(now time.Duration, o *runs.Outcome) {
	a.polls++
	a.hours[now/time.Hour]++
	if o.StatusCode == http.StatusTooManyRequests {
		a.refusals++
	}
	if a.everRan {
		spec, gap := &a.endpoint.Spec, now-a.started
		if spec.MinInterval > 0 {
			a.outside += max(0, spec.MinInterval-gap)
		}
		if spec.MaxInterval > 0 {
			a.outside += max(0, gap-spec.MaxInterval)
		}
	}
	a.started, a.everRan = now, true
	if o.Status != runs.Succeeded {
		a.failed++
		return
	}
	a.recover(now)
	a.detect(now, now)
}

// recover counts the outage whose end a successful request sees. If several have ended since the
// request before, only the last one counts.
func (a *actor) recover(now time.Duration) {
	if n, end := a.target.ended(now); n > a.recovered {
		if end > 0 {
			a.recoveries.add(now - end)
			a.outagePolls += a.failed
		}
		a.recovered = n
	}
	a.failed = 0
}

// detect counts the changes up to an instant as detected.
func (a *actor) detect(until, at time.Duration) {
	for changes := a.target.changes; a.undetected < len(changes) && changes[a.undetected] <= until; a.undetected++ {
		a.delays.add(at - changes[a.undetected])
	}
}

// end finishes the run in flight and plans the next one.
func (a *actor) end(now time.Duration) error {
	at := a.target.begin.Add(now)
	decided, err := a.endpoint.AfterRun(at, history.FinishedOf(a.run))
	if err != nil {
		return fmt.Errorf("finishing a run of %s: %w", a.endpoint.Spec.Name, err)
	}
	a.finish = never
	a.plan(now)
	a.see(&decided.Input)
	if a.evidence == nil {
		return nil
	}
	a.evidence.add(&a.run)
	status := a.endpoint.State.LastRun.Status
	if streak := bits.Len(uint(a.endpoint.State.FailureCount)); streak != a.streak || status != a.status {
		a.streak, a.status = streak, status
		a.analyseSoon(now)
	}
	return nil
}

// plan takes over the due time of the endpoint.
func (a *actor) plan(now time.Duration) {
	at := a.endpoint.State.Due.At
	if !at.Before(governor.Indefinite) {
		a.due = never
		return
	}
	a.due = max(at.Sub(a.target.begin), now)
}

// see counts a move if the tempo in force differs from that of the decision before.
func (a *actor) see(in *governor.Input) {
	p := a.pace
	p.hint = 0
	if in.Hinted() {
		p.hint = in.IntervalHint.Interval
	}
	if in.ChangeRate != nil {
		p.changeRate = in.ChangeRate.Wait
	}
	if p != a.pace && a.polls > 1 {
		a.moves++
	}
	a.pace = p
}
