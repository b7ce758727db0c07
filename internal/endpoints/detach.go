package endpoints

import (
	"time"

	"rubato/internal/governor"
)

// MaxDetached is the maximum number of detached runs of an endpoint. Further runs hold the row of
// the endpoint, so that its due times wait in the queue.
const MaxDetached = 100

// DetachesRuns reports whether runs of the endpoint go on in rows of their own, so that the next
// due time does not wait for them.
func (s *Spec) DetachesRuns() bool { return s.Overlap == governor.OverlapAllow }

// Detach plans the next due time of an endpoint while its run goes on in a row of its own. started
// is the start of the run. For the due times and limits of the endpoint the run ends at once; its
// outcome follows by [Endpoint.Result]. The caller stores the run's row in the same transaction.
func (e *Endpoint) Detach(now, started time.Time) (Recorded, error) {
	s := &e.State
	s.Running = nil
	before := *e
	run := Finished{
		Slot:         s.Due.Slot,
		Attempt:      s.Due.Attempt,
		InfraAttempt: s.Due.InfraAttempt,
		Source:       s.Due.Source,
		StartedAt:    started.Truncate(time.Microsecond),
		FinishedAt:   now,
	}
	s.served(run, e.anchorAfter(run))
	e.countRun(run)
	decided, err := e.decide(now, governor.CauseFinish, waits{})
	if err != nil {
		return Recorded{}, err
	}
	e.account(now, &before, &run, &decided)
	decided.Cause, decided.From, decided.Started = CauseDetach, &before.State, run.StartedAt
	return decided, nil
}

// Result applies a finished attempt of a detached run to its endpoint: the last run, what the
// answer asks for and, unless the due time is tried again, the failure count. The decision is nil
// while another run holds the row of the endpoint, because that run's finish decides.
func (e *Endpoint) Result(now time.Time, run Finished, again bool) (*Recorded, error) {
	before := *e
	s := &e.State
	s.LastRun = run.lastRun()
	if !again {
		s.FailureCount = run.Verdict.failures(s.FailureCount)
	}
	if err := e.heed(run); err != nil {
		return nil, err
	}
	return e.replanAfter(now, &before, CauseResult, Actor{TenantID: e.TenantID})
}
