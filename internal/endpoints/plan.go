package endpoints

import (
	"fmt"
	"time"

	"rubato/internal/governor"
)

// The rules of plans that bypass the governor.
const (
	RuleManual     governor.Rule = "manual"
	RuleRetry      governor.Rule = "retry"
	RuleQuarantine governor.Rule = "quarantine"
)

// Misses reports whether a run that starts this late after it was planned must not be sent any more. Only occurrences of a cron are missed.
func (s *Spec) Misses(source governor.Source, late time.Duration) bool {
	return s.BaselineCron != "" && s.CatchUp.Misses(source, late)
}

// Recorded is a decision as the ledger keeps it: the answer and the input that it was a function of.
type Recorded struct {
	At       time.Time // when it was made, in database time
	Cause    Cause
	Author   string // who asked; empty for the system, [Target] for the target's own word
	Due      Due
	Decision governor.Decision
	Input    governor.Input // its cron is not kept: it follows from the spec of Version
	Version  int64
}

// end returns what holds for an archived endpoint. It is no decision of the governor and is not stored: the audit log tells who archived it.
func (e *Endpoint) end() Recorded {
	d := governor.Decision{
		At: indefinitely, Source: governor.SourcePaused,
		Steps: []governor.Step{{Rule: governor.RulePaused, At: indefinitely, Why: "archived: it never runs again"}},
	}
	return Recorded{At: e.ArchivedAt, Cause: CauseArchive, Due: Due{At: d.At, Source: d.Source}, Decision: d, Version: e.Version}
}

// Replan decides the next due time afresh after a change outside a run, and plans it. A one-off run that waits stays
// planned, because it bypasses the governor.
func (e *Endpoint) Replan(now time.Time) (Recorded, error) {
	return e.plan(now, governor.CauseReplan)
}

// Finished is what the schedule needs to know of a run that just ended.
type Finished struct {
	Slot    time.Time
	Attempt int
	// InfraAttempt counts the runs of the due time that were lost before this one and tried again beside the retry policy.
	InfraAttempt int
	Source       governor.Source // what set its due time
	StartedAt    time.Time
	FinishedAt   time.Time
	Status       string
	Verdict      Verdict
	Retryable    bool // the failure is of a class that trying again may mend
	MaybeSent    bool // a byte of the request may have reached the target
	RetryAfter   time.Time
	Unanswered   bool // the target said nothing, so what it asked for before still stands

	Interrupted bool   // infrastructure ended it; see repeatLoss
	Reason      string // why it has its status, as a code for the trace
}

// first reports whether the run was the first of its due time.
func (f Finished) first() bool { return f.Attempt <= 1 && f.InfraAttempt == 0 }

// manual reports whether the run happened because somebody asked for it.
func (f Finished) manual() bool { return f.Source == governor.SourceManual }

// Verdict is what a run says about its target.
type Verdict int

// The verdicts.
const (
	Neutral Verdict = iota // nothing: infrastructure or a user ended it
	Success
	Failure
)

// AfterRun takes a run that just ended into the state and plans what follows: the same due time again where infrastructure lost its run or
// the retry policy allows another attempt, else what the governor decides. It also forgets the hints and the one-off item that it consumed, and
// finds the due times that passed without a run.
func (e *Endpoint) AfterRun(now time.Time, run Finished) (Recorded, error) {
	before := *e
	s := &e.State
	var err error
	s.Running = nil
	// Neither goes back, even where the database's clock was set back and somebody asked for a run meanwhile: behind them lie due times
	// that were served, and none is served twice.
	s.LastSlot = laterOf(s.LastSlot, run.Slot)
	s.LastRun = &LastRun{
		Slot: run.Slot, Attempt: run.Attempt, InfraAttempt: run.InfraAttempt, Status: run.Status,
		StartedAt: run.StartedAt, FinishedAt: run.FinishedAt,
	}
	if run.Status != skipped { // Else nothing was sent. Rounding up would move an interval as long as its minimum by a millisecond a run.
		s.LastCall = run.StartedAt.Truncate(time.Millisecond)
	}
	s.Anchor = laterOf(s.Anchor, e.anchorAfter(run))
	if !run.Unanswered {
		if s.RetryAfter, err = e.boundedWait(run); err != nil {
			return Recorded{}, err
		}
	}
	if s.OneShotHint != nil && !s.OneShotHint.At.After(run.Slot) {
		s.OneShotHint = nil
	}

	failures := s.FailureCount
	switch run.Verdict {
	case Success:
		s.FailureCount = 0
	case Failure:
		s.FailureCount++
	case Neutral:
	}
	if run.manual() && e.endOneOff(now, run) {
		s.FailureCount = failures
	}
	decided, err := e.decide(now, governor.CauseFinish, run.cut(s.RetryAfter))
	if err != nil {
		return Recorded{}, err
	}
	if due, lost := e.repeatLoss(now, run, decided.Due.At); lost {
		e.tryAgain(&decided, due, infraStep(due, run.Reason))
	} else if due, retry := e.retry(now, run, decided.Due.At); retry {
		s.FailureCount = failures // only the last attempt of a due time says that the due time failed
		e.tryAgain(&decided, due, e.retryStep(due))
	}
	e.account(now, &before, &run, &decided)
	return decided, nil
}

// anchorAfter returns the grid point that the schedule counts from after a run. Another attempt is later than its slot by intent, and so
// is a run that catches up. One that was skipped did not call anybody.
func (e *Endpoint) anchorAfter(run Finished) time.Time {
	planned := run.Slot
	if e.State.Due.Slot.Equal(run.Slot) {
		planned = e.State.Due.At
	}
	if !run.first() || run.Status == skipped || e.catchesUp() {
		return run.Slot
	}
	return governor.NextAnchor(run.Slot, planned, run.StartedAt)
}

func (e *Endpoint) plan(now time.Time, cause governor.Cause) (Recorded, error) {
	return e.decide(now, cause, time.Time{})
}

// decide asks the governor and plans its answer. asked is the wait that the target named where it was cut, for the trace; zero: none was.
func (e *Endpoint) decide(now time.Time, cause governor.Cause, asked time.Time) (Recorded, error) {
	in, err := e.input(now, cause)
	if err != nil {
		return Recorded{}, err
	}
	in.RetryAsked = asked
	d := governor.Decide(in)
	e.State.Due = Due{At: d.At, Slot: d.Slot, Attempt: 1, Source: d.Source}
	decided := Recorded{At: now, Cause: Cause(cause), Due: e.State.Due, Decision: d, Input: in, Version: e.Version}
	e.planOneOff(&decided)
	return decided, nil
}

// input gathers what the governor's decision is a function of.
func (e *Endpoint) input(now time.Time, cause governor.Cause) (governor.Input, error) {
	cron := e.Cron
	if cron == nil {
		parsed, err := e.Spec.ParseCron(e.ID)
		if err != nil {
			return governor.Input{}, fmt.Errorf("parsing the baseline of endpoint %s: %w", e.ID, err)
		}
		cron = parsed
	}
	s := e.State
	in := governor.Input{
		EndpointID: e.ID, Now: now, Cause: cause, Anchor: s.Anchor, StartAt: e.Spec.StartAt,
		Baseline: governor.Baseline{Interval: e.Spec.BaselineInterval}, CatchUp: e.Spec.CatchUp, Failures: s.FailureCount,
		Min: e.Spec.MinInterval, Max: e.Spec.MaxInterval, LastStart: governor.LastStart(s.LastCall, s.Anchor, e.Spec.MinInterval), LastSlot: s.LastSlot,
		RetryAfter: s.RetryAfter, PausedUntil: s.PausedUntil, Accounted: e.accounted(now), Jitter: e.Spec.Jitter,
	}
	if cron != nil { // A nil *Cron in the interface would not be a nil interface.
		in.Baseline.Cron = cron
	}
	if h := s.IntervalHint; h != nil {
		in.IntervalHint = &governor.IntervalHint{
			Interval: h.Interval, ExpiresAt: h.ExpiresAt, Reason: h.Reason, OutageSince: h.OutageSince,
		}
	}
	if h := s.OneShotHint; h != nil {
		in.OneShot = &governor.OneShotHint{At: h.At, ExpiresAt: h.ExpiresAt, Reason: h.Reason}
	}
	return in, nil
}

// accounted returns up to where the occurrences of a cron are out of question for a decision. Where its first due time has come and waits, for
// want of a worker, say, a change is no reason to give that up. Nothing is owed for what a pause held back before the first run.
func (e *Endpoint) accounted(now time.Time) time.Time {
	var until time.Time
	if s := e.State; s.Anchor.IsZero() {
		if e.Spec.BaselineCron == "" || s.Due.Slot.IsZero() || s.Due.Slot.After(now) {
			return time.Time{}
		}
		until = e.CreatedAt
	}
	if e.catchesUp() {
		until = laterOf(until, e.State.AccountedUntil)
	}
	return until
}
