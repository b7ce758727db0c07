package planner_test

import (
	"math/bits"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/planner"
	"rubato/internal/runs"
)

// answer is an answer of a simulated target.
type answer struct {
	status  runs.Status
	code    int
	latency time.Duration
	digest  uint64
	wait    time.Duration // Retry-After; 0: none
}

// until returns the end of the wait that the target asked for.
func (a answer) until(now time.Time) time.Time {
	if a.wait == 0 {
		return time.Time{}
	}
	return now.Add(a.wait)
}

// actor is a simulated endpoint with its target.
type actor struct {
	*endpoints.Endpoint

	answer  func(at time.Time) answer
	runs    []runs.Run // oldest first
	slots   []time.Time
	memory  planner.Memory
	next    time.Time // of its analysis
	before  time.Time // not before
	bits    int
	acted   []time.Time
	session []*planner.Session
	holds   []endpoints.Hold // what persons forbid
}

// world runs endpoints and their planner in virtual time. Governor, rails and endpoints are the
// real ones.
type world struct {
	testing.TB

	now    time.Time
	office planner.SessionRunner
	actors []*actor
	memory planner.FleetSlowdownMemory
	hosts  func(a *actor) string // for the sample of slow hosts; nil: no sample
	after  func(a *actor)        // called for each endpoint after each of its steps; nil: not called
}

// begin is the start of simulations: a Monday.
var begin = time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)

// newWorld returns an empty simulation. With -short it skips the test, because the race detector
// finds nothing in a simulation of one goroutine.
func newWorld(tb testing.TB, a planner.Advisor, r planner.Guardrails) *world {
	tb.Helper()
	if testing.Short() {
		tb.Skip("simulations of one goroutine run without -short") //nolint:forbidigo // -short alone leaves it out.
	}
	return &world{TB: tb, now: begin, office: planner.NewSessionRunner(a, r)}
}

// add adds an endpoint that has never run.
func (w *world) add(spec endpoints.Spec, answer func(time.Time) answer) *actor {
	w.Helper()
	e := &endpoints.Endpoint{ID: endpoints.ID{15: byte(len(w.actors) + 1)}, Version: 1, CreatedAt: w.now, Spec: spec.Normalize()}
	_, err := e.Replan(w.now)
	require.NoError(w, err)
	a := &actor{Endpoint: e, answer: answer, next: w.now}
	w.actors = append(w.actors, a)
	return a
}

// crowd returns the number of endpoints that are slow at once.
func (w *world) crowd() planner.FleetSlowdown {
	if w.hosts == nil {
		return planner.FleetSlowdown{}
	}
	var sample []planner.Peer
	for _, a := range w.actors {
		p := planner.Peer{Host: w.hosts(a)}
		for _, run := range a.newest(planner.SlowdownSample) {
			p.Latencies = append(p.Latencies, run.Outcome.Phases.Wait)
		}
		sample = append(sample, p)
	}
	return w.memory.Observe(w.now, planner.FleetSlowdownOf(sample))
}

// run advances time to an instant.
func (w *world) run(until time.Time) {
	w.Helper()
	for {
		due, at := w.first()
		if at.After(until) {
			w.now = until
			return
		}
		w.now = at
		due()
	}
}

// first returns the next action and its time.
func (w *world) first() (act func(), at time.Time) {
	at = begin.AddDate(100, 0, 0)
	for _, a := range w.actors {
		if a.State.Due.At.Before(at) {
			at, act = a.State.Due.At, func() { w.carryOut(a) }
		}
		if a.next.Before(at) {
			at, act = a.next, func() { w.analyse(a) }
		}
	}
	if at.Before(w.now) {
		at = w.now
	}
	return act, at
}

// carryOut runs an endpoint. The decision about its next run takes no time.
func (w *world) carryOut(a *actor) {
	w.Helper()
	due, got := a.State.Due, a.answer(w.now)
	run := runs.Run{
		ID: runs.NewID(due.Slot, a.ID, 1, 0), EndpointID: a.ID, ScheduledFor: due.Slot, StartedAt: w.now, FinishedAt: w.now,
		Outcome: runs.Outcome{Status: got.status, Reason: runs.HTTPStatus, StatusCode: got.code, Phases: runs.Phases{Wait: got.latency}, BodyDigest: got.digest},
	}
	a.runs, a.slots = append(a.runs, run), append(a.slots, due.At)
	verdict := endpoints.Success
	if run.Outcome.CountsAsFailure() {
		verdict = endpoints.Failure
	}
	_, err := a.AfterRun(w.now, endpoints.Finished{
		Slot: due.Slot, Attempt: 1, StartedAt: w.now, FinishedAt: w.now, Status: string(got.status), Verdict: verdict, RetryAfter: got.until(w.now),
	})
	require.NoError(w, err)
	if streak := bits.Len(uint(a.State.FailureCount)); streak != a.bits {
		a.bits = streak
		a.next = latest(w.now, a.before)
	}
	w.look(a)
}

func (w *world) look(a *actor) {
	if w.after != nil {
		w.after(a)
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// analyse runs a session of an endpoint.
func (w *world) analyse(a *actor) {
	w.Helper()
	m := planner.Inputs{Endpoint: a.copy(), Now: w.now, Runs: a.newest(planner.HealthSample), Holds: a.holds, FleetSlowdown: w.crowd()}
	if planner.Parked(m) {
		a.next = w.now.Add(time.Minute)
		return
	}
	for _, other := range w.actors {
		if other != a && other.Spec.Labels[planner.GroupLabel] == a.Spec.Labels[planner.GroupLabel] && a.Spec.Labels[planner.GroupLabel] != "" {
			m.Siblings = append(m.Siblings, planner.SiblingHistory{Endpoint: other.copy(), Runs: other.newest(planner.SiblingSample)})
		}
	}
	c, err := w.office.Analyse(w.Context(), m, planner.Claim{Account: planner.Account{EndpointID: a.ID}, Trigger: planner.TimeReached, Memory: a.memory})
	require.NoError(w, err)
	if c.Apply != nil {
		changed := a.copy()
		_, err := c.Apply(changed, a.holds, w.now)
		require.NoError(w, err, "nothing happened since it was judged")
		a.Endpoint = changed
		a.acted = append(a.acted, w.now)
	}
	a.memory, a.next, a.before = c.Memory, c.NextAt, c.NotBefore
	a.session = append(a.session, c.Session)
	w.look(a)
}

func (a *actor) copy() *endpoints.Endpoint {
	e := *a.Endpoint
	return &e
}

// newest returns the newest runs, newest first.
func (a *actor) newest(limit int) []runs.Run {
	list := slices.Clone(a.runs[max(0, len(a.runs)-limit):])
	slices.Reverse(list)
	return list
}

// between counts the runs from one instant to another.
func (a *actor) between(from, to time.Time) (n int) {
	for _, at := range a.slots {
		if !at.Before(from) && at.Before(to) {
			n++
		}
	}
	return n
}

// interval returns an endpoint with an interval on which the planner acts.
func interval(name string, every time.Duration) endpoints.Spec {
	s := endpoints.Defaults()
	s.Name, s.URL, s.BaselineInterval = name, "https://example.com/", every
	s.Planner = endpoints.PlannerAct
	return s
}
