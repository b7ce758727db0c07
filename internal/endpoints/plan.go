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

// Misses reports whether a run that starts this late must not be sent any more. Only occurrences of
// a cron can be missed.
func (s *Spec) Misses(source governor.Source, late time.Duration) bool {
	return s.BaselineCron != "" && s.CatchUp.Misses(source, late)
}

// Recorded is a decision as the ledger stores it: the result, and the input that it is a function
// of.
type Recorded struct {
	// At is the instant of the decision in database time.
	At    time.Time
	Cause Cause
	// Author is the name of the caller. It is empty for the system, and [Target] for an answer of
	// the target.
	Author   string
	Due      Due
	Decision governor.Decision
	// Input lacks the cron, because the cron follows from the spec of Version.
	Input   governor.Input
	Version int64
	// From is the state that the decision was made from; nil if it is the one that the decision
	// before left.
	From *State
	// Shared is the budget that the endpoint shared; nil: none.
	Shared *SharedBudget
	// Started is the start of the run that was detached; zero for every other cause.
	Started time.Time
}

// end returns the final entry of an archived endpoint. It is not stored, because the audit log
// records the archiving and its author.
func (e *Endpoint) end() Recorded {
	d := governor.Decision{
		At: indefinitely, Source: governor.SourcePaused,
		Steps: []governor.Step{{
			Rule: governor.RulePaused,
			At:   indefinitely,
			Why:  "archived: it never runs again",
		}},
	}
	return Recorded{
		At:       e.ArchivedAt,
		Cause:    CauseArchive,
		Due:      Due{At: d.At, Source: d.Source},
		Decision: d,
		Version:  e.Version,
	}
}

// Replan decides and plans the next due time after a change outside a run. A queued one-off run
// stays planned, because it bypasses the governor.
func (e *Endpoint) Replan(now time.Time) (Recorded, error) {
	from := e.State
	decided, err := e.plan(now, governor.CauseReplan)
	decided.From = &from
	return decided, err
}

// Finished is the outcome of a run, as far as the schedule depends on it.
type Finished struct {
	Slot    time.Time
	Attempt int
	// InfraAttempt counts the earlier runs of the due time that infrastructure lost and that were
	// repeated.
	InfraAttempt int
	// Source is the rule that set the due time.
	Source     governor.Source
	StartedAt  time.Time
	FinishedAt time.Time
	Status     string
	Verdict    Verdict
	// Retryable reports a failure of a class that another attempt may mend.
	Retryable bool
	// MaybeSent reports that a byte of the request may have reached the target.
	MaybeSent  bool
	RetryAfter time.Time
	// OpenUntil is when the run may be tried again that the breaker of the host held back; zero: it
	// did not.
	OpenUntil time.Time
	// TargetNext and FreshUntil are what the headers of a successful answer asked for.
	TargetNext, FreshUntil time.Time
	// Unanswered means that the target sent no answer, so that its earlier wishes still hold.
	Unanswered bool

	// Digest is that of the answer; 0: none that can be compared.
	Digest uint64
	// Unchanged means that the target said so by status 304.
	Unchanged bool
	// LookAgain asks for another look soon, because the search for noise looks closer.
	LookAgain bool

	// Interrupted means that infrastructure ended the run; see retryLoss.
	Interrupted bool
	// Reason is the reason code of the status, for the trace.
	Reason string
}

// first reports whether the run was the first of its due time.
func (f Finished) first() bool { return f.Attempt <= 1 && f.InfraAttempt == 0 }

// manual reports whether the run is a one-off run.
func (f Finished) manual() bool { return f.Source == governor.SourceManual }

// Verdict is the effect of a run on the failure count.
type Verdict int

// The verdicts.
const (
	// Neutral leaves the failure count as it is, because infrastructure or a user ended the run.
	Neutral Verdict = iota
	Success
	Failure
)

// failures returns the number of failures in a row after a run, from that before it.
func (v Verdict) failures(before int) int {
	switch v {
	case Success:
		return 0
	case Failure:
		return before + 1
	case Neutral:
	}
	return before
}

// AfterRun applies a finished run to the state and plans the next one. It repeats the due time if
// infrastructure lost the run, or if the retry policy allows another attempt. Otherwise the
// governor decides. AfterRun also drops the hints and the one-off item that the run consumed, and
// collects the due times that passed without a run.
func (e *Endpoint) AfterRun(now time.Time, run Finished) (Recorded, error) {
	if e.Call != nil {
		return e.afterCall(now, run)
	}
	before := *e
	s := &e.State
	anchor := e.anchorAfter(run)
	var err error
	s.Running = nil
	if err = e.serve(run, anchor); err != nil {
		return Recorded{}, err
	}
	e.lookAgain(now, run)

	failures := s.FailureCount
	s.FailureCount = run.Verdict.failures(failures)
	again := run.manual() && e.endOneOff(now, run)
	if again {
		s.FailureCount = failures
	}
	if err := e.observe(now, run); err != nil {
		return Recorded{}, err
	}
	after := waits{asked: run.cut(s.RetryAfter), open: run.OpenUntil}
	decided, err := e.decide(now, governor.CauseFinish, after)
	if err != nil {
		return Recorded{}, err
	}
	if due, lost := e.retryLoss(now, run, decided.Due.At); lost {
		again = true
		e.planRetry(&decided, due, infraStep(due, run.Reason))
	} else if due, retry := e.retry(now, run, decided.Due.At); retry {
		again = true
		s.FailureCount = failures // Only the last attempt of a due time decides whether the due time failed.
		e.planRetry(&decided, due, e.retryStep(due))
	}
	if !again && e.countRun(run) { // The decision above was made with another run to come.
		if decided, err = e.decide(now, governor.CauseFinish, after); err != nil {
			return Recorded{}, err
		}
	}
	if !again {
		e.GivenUp, e.ChainStarts = e.Spec.GivesUp(run), e.Spec.chainStarts(run)
	}
	e.account(now, &before, &run, &decided)
	return decided, nil
}

// serve keeps what a finished run says about later ones. anchor is the grid point after it.
func (e *Endpoint) serve(run Finished, anchor time.Time) (err error) {
	s := &e.State
	s.served(run, anchor)
	s.LastRun = run.lastRun()
	return e.heed(run)
}

// served keeps the due time that a run serves. LastSlot and Anchor never move back, even if the
// database's clock was set back and a one-off run was requested meanwhile. The due times behind
// them were served, and no due time is served twice.
func (s *State) served(run Finished, anchor time.Time) {
	s.LastSlot = laterOf(s.LastSlot, run.Slot)
	// A skipped run sent nothing, so LastCall stays. LastCall is cut down, because rounding up
	// would shift an interval as long as its minimum by a millisecond per run.
	if run.Status != skipped {
		s.LastCall = run.StartedAt.Truncate(time.Millisecond)
	}
	s.Anchor = laterOf(s.Anchor, anchor)
	if s.OneShotHint != nil && !s.OneShotHint.At.After(run.Slot) {
		s.OneShotHint = nil
	}
}

// heed keeps what the answer of a run asks for.
func (e *Endpoint) heed(run Finished) (err error) {
	if run.Unanswered {
		return nil
	}
	s := &e.State
	if s.RetryAfter, err = e.boundedWait(run); err != nil {
		return err
	}
	s.TargetNext, s.FreshUntil = run.TargetNext, run.FreshUntil
	return nil
}

// GivesUp reports whether a run that is not repeated becomes a dead letter.
func (s *Spec) GivesUp(run Finished) bool {
	return run.givenUp() && (run.manual() || s.DeadLetter && run.Status != skipped)
}

// givenUp reports whether a run that is not repeated was given up. One that a user canceled was not
// given up by the system.
func (f Finished) givenUp() bool { return f.Status != succeeded && f.Status != canceled }

// lastRun returns the run as the state of its endpoint keeps it.
func (f Finished) lastRun() *LastRun {
	return &LastRun{
		Slot:         f.Slot,
		Attempt:      f.Attempt,
		InfraAttempt: f.InfraAttempt,
		Status:       f.Status,
		StartedAt:    f.StartedAt,
		FinishedAt:   f.FinishedAt,
	}
}

// anchorAfter returns the grid point that the schedule counts from after a run. It is the slot for
// a further attempt, a catch-up run, a queued run and a skipped run, because their start says
// nothing about the grid. It must be called before the run is the last one. A one-off run leaves
// the grid as it is while due times are queued, because they follow it.
func (e *Endpoint) anchorAfter(run Finished) time.Time {
	queued := e.hasQueue()
	if queued && run.manual() {
		return e.State.Anchor
	}
	planned := run.Slot
	if e.State.Due.Slot.Equal(run.Slot) {
		planned = e.State.Due.At
	}
	if !run.first() || run.Status == skipped || e.catchesUp() || queued {
		return run.Slot
	}
	return governor.NextAnchor(run.Slot, planned, run.StartedAt)
}

func (e *Endpoint) plan(now time.Time, cause governor.Cause) (Recorded, error) {
	return e.decide(now, cause, waits{})
}

// waits are the waits after a finish that the state does not keep.
type waits struct {
	// asked is the wait that the target requested if it was cut, for the trace; zero: it was not
	// cut.
	asked time.Time
	// open is when the host may be tried again; zero: its breaker held nothing back.
	open time.Time
}

// decide asks the governor and plans its result.
func (e *Endpoint) decide(now time.Time, cause governor.Cause, after waits) (Recorded, error) {
	e.limitRuns(now)
	in, err := e.input(now, cause)
	if err != nil {
		return Recorded{}, err
	}
	in.RetryAsked, in.OpenUntil = after.asked, after.open
	d := governor.Decide(in)
	e.State.Due = Due{
		At:      d.At,
		Slot:    d.Slot,
		Attempt: 1,
		Source:  d.Source,
	}
	decided := Recorded{
		At:       now,
		Cause:    Cause(cause),
		Due:      e.State.Due,
		Decision: d,
		Input:    in,
		Version:  e.Version,
		Shared:   e.Shared,
	}
	e.planOneOff(&decided)
	return decided, nil
}

// input builds the input of the governor. A decision is a pure function of it.
func (e *Endpoint) input(now time.Time, cause governor.Cause) (governor.Input, error) {
	cron := e.Cron
	if cron == nil {
		parsed, err := e.Spec.ParseCron(e.ID)
		if err != nil {
			return governor.Input{}, fmt.Errorf("parsing the baseline of endpoint %s: %w", e.ID, err)
		}
		cron = parsed
	}
	s := &e.State
	in := governor.Input{
		EndpointID:  e.ID,
		Now:         now,
		Cause:       cause,
		Anchor:      s.Anchor,
		StartAt:     e.Spec.StartAt,
		EndAt:       e.endAt(),
		Baseline:    governor.Baseline{Interval: e.Spec.BaselineInterval},
		CatchUp:     e.Spec.CatchUp,
		Failures:    s.FailureCount,
		Min:         e.Spec.MinInterval,
		Max:         e.Spec.MaxInterval,
		LastStart:   governor.LastStart(s.LastCall, s.Anchor, e.Spec.MinInterval),
		LastSlot:    s.LastSlot,
		RetryAfter:  s.RetryAfter,
		TargetNext:  s.TargetNext,
		FreshUntil:  s.FreshUntil,
		PausedUntil: s.PausedUntil,
		Accounted:   e.accounted(now),
		QueuedUntil: e.queuedUntil(now, cause),
		Jitter:      e.Spec.Jitter,
		Terse:       e.Terse,
		ChangeRate:  e.changeRate(),
	}
	if cron != nil { // A nil *Cron in the interface would not be a nil interface.
		in.Baseline.Cron = cron
	}
	if h := s.IntervalHint; h != nil {
		in.IntervalHint = &governor.IntervalHint{
			Interval:    h.Interval,
			ExpiresAt:   h.ExpiresAt,
			Reason:      h.Reason,
			OutageSince: h.OutageSince,
		}
	}
	if h := s.OneShotHint; h != nil {
		in.OneShot = &governor.OneShotHint{
			At:        h.At,
			ExpiresAt: h.ExpiresAt,
			Reason:    h.Reason,
		}
	}
	return in, nil
}

// accounted returns the low-water mark below which occurrences of a cron no longer count for a
// decision. If the first due time has come and still waits, for example for a worker, a change
// keeps it. Due times that a pause held back before the first run are not caught up.
func (e *Endpoint) accounted(now time.Time) time.Time {
	var until time.Time
	if s := e.State; s.Anchor.IsZero() {
		if e.Spec.BaselineCron == "" || s.Due.Slot.IsZero() || s.Due.Slot.After(now) {
			return time.Time{}
		}
		until = e.CreatedAt
	}
	if e.catchesUp() || e.queues() && !e.State.Anchor.IsZero() {
		until = laterOf(until, e.State.AccountedUntil)
	}
	return until
}
