package planner

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"rubato/internal/auditlog"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/failpoint"
)

// analyse runs the session of a claim: it loads the evidence, runs the advisor and records the
// result in one transaction.
func (p *Planner) analyse(ctx context.Context, t Claim) error {
	material, err := p.cfg.Evidence.Load(ctx, t.Account)
	if errs.CodeOf(err) == errs.NotFound {
		return p.cfg.Queue.Park(ctx, t, ParkedArchived, 0)
	}
	if err != nil {
		return fmt.Errorf("load endpoint %s: %w", t.Account.EndpointID, err)
	}
	if why := parkReason(material); why != "" {
		return p.cfg.Queue.Park(ctx, t, why, material.Endpoint.Version)
	}
	t.Memory = t.Memory.pruned(material.Now)
	a := &analysis{
		Planner: p,
		claim:   t,
		inputs:  material,
	}
	if err := a.prepare(); err != nil {
		return err
	}
	a.runAdvisor(ctx)
	if ctx.Err() != nil { // graceful shutdown; another planner analyses the endpoint
		return ctx.Err()
	}
	failpoint.Hit(failpoint.Advised)
	return a.record(ctx)
}

// parkReason returns the reason not to analyse an endpoint; empty if it is analysed.
func parkReason(m Inputs) ParkReason {
	switch {
	case m.Endpoint.Archived():
		return ParkedArchived
	case m.Endpoint.PausedAt(m.Now):
		return ParkedPaused
	case authorityOf(m.Endpoint) == Off:
		return ParkedOff
	default:
		return ""
	}
}

// analysis is one running session. One goroutine owns it; only tools is shared with the advisor.
type analysis struct {
	*Planner

	claim      Claim
	inputs     Inputs
	snapshot   Snapshot
	tools      *sessionTools
	verdict    Verdict
	advisorErr error
}

func (a *analysis) prepare() (err error) {
	if a.snapshot, err = NewSnapshot(a.inputs, a.claim); err != nil {
		return fmt.Errorf("build snapshot of endpoint %s: %w", a.claim.Account.EndpointID, err)
	}
	a.snapshot.AnalysisInterval = a.cfg.Guardrails.analysisInterval()
	s, err := newProposalContext(a.inputs.Endpoint, a.claim.Memory, a.inputs.Now)
	if err != nil {
		return err
	}
	s.holds = a.inputs.Holds
	a.tools = &sessionTools{
		account:    a.claim.Account,
		inputs:     a.inputs,
		proposals:  s,
		guardrails: a.cfg.Guardrails,
		evidence:   a.cfg.Evidence,
		refused:    map[Kind]int{},
		cut:        map[Kind]int{},
	}
	return nil
}

// runAdvisor runs the advisor within the session timeout. A panic of the advisor becomes its error.
func (a *analysis) runAdvisor(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Timeout)
	defer cancel()
	defer func() {
		if fault := recover(); fault != nil {
			a.metrics.panics.Inc()
			a.cfg.Logger.Error("advisor panicked", "error", fault, "stack", string(debug.Stack()))
			a.advisorErr = errors.New("the advisor failed by a fault of its own")
		}
	}()
	verdict, err := a.cfg.Advisor.Advise(ctx, a.snapshot, a.tools)
	a.advisorErr = err
	if err == nil {
		a.verdict = a.tools.submit(verdict)
	}
}

// record writes the session. If the database rejects a value, it writes the session again without
// its calls, because they hold unchecked text of the advisor. If that is rejected too, it writes a
// failed session. The next analysis time and the spent tokens are recorded in every case, because
// otherwise the endpoint would be analysed again and again at the same cost.
func (a *analysis) record(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	c, err := a.tryRecord(ctx)
	if errors.Is(err, ErrUnwritable) {
		a.cfg.Logger.Warn("database rejected a value of a session; recording it without its calls",
			"endpoint_id", a.claim.Account.EndpointID.String(), "error", err)
		a.tools.dropCalls()
		c, err = a.tryRecord(ctx)
	}
	if errors.Is(err, ErrUnwritable) {
		a.advisorErr, a.verdict = err, Verdict{}
		c, err = a.tryRecord(ctx)
	}
	if err != nil {
		return fmt.Errorf("record session of endpoint %s: %w", a.claim.Account.EndpointID, err)
	}
	a.metrics.closed(c, a.tools)
	return nil
}

// tryRecord writes the session once. If the endpoint changed so that the plan no longer holds, it
// records a stale session instead.
func (a *analysis) tryRecord(ctx context.Context) (Completion, error) {
	c := a.completion()
	err := a.cfg.Queue.Complete(ctx, a.claim, c)
	if stale(err) {
		a.tools.Warn("nothing was written: " + errorText(err))
		c = a.completionOf(Stale)
		err = a.cfg.Queue.Complete(ctx, a.claim, c)
	}
	return c, err
}

// stale reports whether the transaction refused the plan because of the endpoint's current state.
func stale(err error) bool {
	if errors.Is(err, ErrUnwritable) {
		return false
	}
	switch errs.CodeOf(err) {
	case errs.Conflict, errs.Precondition, errs.Invalid:
		return true
	default:
		return false
	}
}

// completion returns the record of the session and the changes that go with it.
func (a *analysis) completion() Completion {
	if a.advisorErr != nil {
		return a.completionOf(resultOf(a.advisorErr))
	}
	if a.tools.plan.Empty() {
		return a.completionOf(Unchanged)
	}
	switch authorityOf(a.inputs.Endpoint) {
	case Observe:
		return a.completionOf(Observed)
	case Suggest:
		c := a.completionOf(Suggested)
		c.Suggestion = a.suggestion(c.Session)
		return c
	default:
		c := a.completionOf(Acted)
		c.Memory = a.withChanges(c.Memory)
		c.Apply = a.apply
		return c
	}
}

// resultOf maps an advisor's error to the result of its session.
func resultOf(fault error) Result {
	if errors.Is(fault, ErrOverBudget) {
		return OverBudget
	}
	if _, away := errors.AsType[*UnavailableError](fault); away {
		return Unreachable
	}
	return Failed
}

// completionOf returns a record with the given result that changes nothing.
func (a *analysis) completionOf(r Result) Completion {
	d, now := a.tools, a.inputs.Now
	s := &Session{
		ID:         NewSessionID(),
		TenantID:   a.claim.Account.TenantID,
		EndpointID: a.claim.Account.EndpointID,
		Version:    a.inputs.Endpoint.Version,
		StartedAt:  now,
		Advisor:    a.cfg.Advisor.Name(),
		Trigger:    a.claim.Trigger,
		Authority:  authorityOf(a.inputs.Endpoint),
		Outcome:    r,
		Verdict:    a.verdict,
		Calls:      d.calls,
		Usage:      d.usage,
		Warnings:   d.warnings,
		Changes:    []string{},
	}
	in := a.verdict.NextAnalysisIn
	switch r {
	case Acted, Suggested, Observed:
		s.Changes = d.plan.Describe()
	case Stale:
		in = time.Second // analyse the changed endpoint as soon as permitted
	case OverBudget:
		in = now.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour).Sub(now) // until the token budget of the next day
		s.Error = ErrOverBudget.Error()
	case Unreachable:
		if away, is := errors.AsType[*UnavailableError](a.advisorErr); is {
			in = away.RetryIn
		}
		s.Error = "the advisor could not be asked"
	case Failed:
		s.Error = "the advisor failed or took too long"
		a.cfg.Logger.Warn("advisor failed; the baseline stays in force", "endpoint_id", s.EndpointID.String(), "error", a.advisorErr)
	case Unchanged:
	}
	memory := a.claim.Memory.withAnalysis(Analysis{
		At:        now,
		Advisor:   s.Advisor,
		Outcome:   r,
		Reasoning: s.Verdict.Reasoning,
		Tainted:   d.tainted(),
	})
	next, notBefore := a.cfg.Guardrails.nextAnalysis(memory, now, in)
	s.NextAt = next
	c := Completion{
		Session:   s,
		Memory:    memory,
		NextAt:    next,
		NotBefore: notBefore,
	}
	if last := a.inputs.Endpoint.State.LastRun; last != nil {
		c.SeenStatus = last.Status
	}
	return c
}

// withChanges adds the plan's changes to a memory.
func (a *analysis) withChanges(m Memory) Memory {
	n, direction := a.tools.proposals.countChanges(a.tools.plan)
	if n == 0 {
		return m
	}
	if p := a.tools.plan.Pause; p != nil {
		m.Pauses = append(m.Pauses, Span{From: a.inputs.Now, Until: a.inputs.Now.Add(p.For)})
	}
	if direction == 0 {
		direction = m.Direction
	}
	return m.withChanges(a.inputs.Now, n, direction)
}

// author returns the author of an advisor's hints.
func author(advisor string) string { return endpoints.PlannerAuthor + advisor }

func (a *analysis) suggestion(s *Session) *Suggestion {
	return &Suggestion{
		ID:         NewSuggestionID(),
		TenantID:   s.TenantID,
		EndpointID: s.EndpointID,
		SessionID:  s.ID,
		Advisor:    s.Advisor,
		Version:    s.Version,
		Plan:       a.tools.plan,
		Reasoning:  s.Verdict.Reasoning,
		CreatedAt:  a.inputs.Now,
		ExpiresAt:  a.inputs.Now.Add(suggestionTTL),
		State:      Pending,
	}
}

// apply puts the plan in force under the endpoint's row lock. The guardrails check it again against
// the current state. If the endpoint was edited in between, the edit wins.
func (a *analysis) apply(e *endpoints.Endpoint, holds []endpoints.Hold, now time.Time) (*endpoints.Recorded, error) {
	if e.Version != a.inputs.Endpoint.Version {
		return nil, errs.New(errs.Precondition, "version_mismatch", "the endpoint was edited while it was analysed")
	}
	s, err := newProposalContext(e, a.claim.Memory, now)
	if err != nil {
		return nil, err
	}
	s.holds, s.tainted = holds, a.tools.tainted()
	plan, _, err := a.cfg.Guardrails.evaluate(s, a.tools.plan)
	if err != nil {
		return nil, err
	}
	name := author(a.cfg.Advisor.Name())
	return e.ApplyAdvice(now, auditlog.Actor{TenantID: e.TenantID, Name: name}, name, plan.advice())
}
