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

// analyse carries out the session of a claim: it looks, asks the advisor, and writes everything at once.
func (p *Planner) analyse(ctx context.Context, t Ticket) error {
	material, err := p.cfg.Evidence.Look(ctx, t.Account)
	if errs.CodeOf(err) == errs.NotFound {
		return p.cfg.Queue.Leave(ctx, t, ParkedArchived, 0)
	}
	if err != nil {
		return fmt.Errorf("looking at endpoint %s: %w", t.Account.EndpointID, err)
	}
	if why := leaveAlone(material); why != "" {
		return p.cfg.Queue.Leave(ctx, t, why, material.Endpoint.Version)
	}
	t.Memory = t.Memory.at(material.Now)
	a := &analysis{Planner: p, ticket: t, material: material}
	if err := a.prepare(); err != nil {
		return err
	}
	a.consult(ctx)
	if ctx.Err() != nil { // The planner stops: another one looks again.
		return ctx.Err()
	}
	failpoint.Hit(failpoint.Advised)
	return a.close(ctx)
}

// leaveAlone returns why an endpoint is not to be analysed; empty: it is.
func leaveAlone(m Material) Parked {
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

// analysis is one session under way.
type analysis struct {
	*Planner

	ticket   Ticket
	material Material
	subject  Case
	desk     *boundDesk
	verdict  Verdict
	fault    error // of the advisor
}

func (a *analysis) prepare() (err error) {
	if a.subject, err = NewCase(a.material, a.ticket); err != nil {
		return fmt.Errorf("putting together the case of endpoint %s: %w", a.ticket.Account.EndpointID, err)
	}
	a.subject.LookEvery = a.cfg.Rails.lookEvery()
	s, err := stand(a.material.Endpoint, a.ticket.Memory, a.material.Now)
	if err != nil {
		return err
	}
	s.holds = a.material.Holds
	a.desk = &boundDesk{
		account: a.ticket.Account, material: a.material, standing: s, rails: a.cfg.Rails, evidence: a.cfg.Evidence,
		refused: map[Kind]int{}, cut: map[Kind]int{},
	}
	return nil
}

// consult asks the advisor, within the time of a session. What it panics with is its failure.
func (a *analysis) consult(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Timeout)
	defer cancel()
	defer func() {
		if fault := recover(); fault != nil {
			a.metrics.panics.Inc()
			a.cfg.Logger.Error("an advisor panicked", "error", fault, "stack", string(debug.Stack()))
			a.fault = errors.New("the advisor failed by a fault of its own")
		}
	}()
	verdict, err := a.cfg.Advisor.Advise(ctx, a.subject, a.desk)
	a.fault = err
	if err == nil {
		a.verdict = a.desk.submit(verdict)
	}
}

// close writes the session. Where the database refuses a value of it, it is written without its calls, which hold what an advisor sent
// as it stood; and if that is not enough, as one that failed: when to look again and what was spent are on record in any case. Otherwise
// the endpoint would be analysed again as soon as the lock ends, at the same price, over and over.
func (a *analysis) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	c, err := a.write(ctx)
	if errors.Is(err, ErrUnwritable) {
		a.cfg.Logger.Warn("the database refused a value of a session; it is written without its calls",
			"endpoint_id", a.ticket.Account.EndpointID.String(), "error", err)
		a.desk.forget()
		c, err = a.write(ctx)
	}
	if errors.Is(err, ErrUnwritable) {
		a.fault, a.verdict = err, Verdict{}
		c, err = a.write(ctx)
	}
	if err != nil {
		return fmt.Errorf("writing a session of endpoint %s: %w", a.ticket.Account.EndpointID, err)
	}
	a.metrics.closed(c, a.desk)
	return nil
}

// write writes what the session leaves. Where the endpoint was changed meanwhile so that the plan no longer holds, it writes that instead.
func (a *analysis) write(ctx context.Context) (Closing, error) {
	c := a.closing()
	err := a.cfg.Queue.Close(ctx, a.ticket, c)
	if stale(err) {
		a.desk.Warn("nothing was written: " + told(err))
		c = a.ended(Stale)
		err = a.cfg.Queue.Close(ctx, a.ticket, c)
	}
	return c, err
}

// stale reports whether a plan was refused in the transaction that should have written it.
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

// closing returns what the session leaves.
func (a *analysis) closing() Closing {
	if a.fault != nil {
		return a.ended(resultOf(a.fault))
	}
	if a.desk.plan.Empty() {
		return a.ended(Unchanged)
	}
	switch authorityOf(a.material.Endpoint) {
	case Observe:
		return a.ended(Observed)
	case Suggest:
		c := a.ended(Suggested)
		c.Suggestion = a.suggestion(c.Session)
		return c
	default:
		c := a.ended(Acted)
		c.Memory = a.remember(c.Memory)
		c.Revise = a.revise
		return c
	}
}

// resultOf returns how a session ends whose advisor failed.
func resultOf(fault error) Result {
	if errors.Is(fault, ErrOverBudget) {
		return OverBudget
	}
	if _, away := errors.AsType[*UnavailableError](fault); away {
		return Unreachable
	}
	return Failed
}

// ended returns what is left of a session that ends in a result and changes nothing.
func (a *analysis) ended(r Result) Closing {
	d, now := a.desk, a.material.Now
	s := &Session{
		ID: NewSessionID(), TenantID: a.ticket.Account.TenantID, EndpointID: a.ticket.Account.EndpointID, Version: a.material.Endpoint.Version,
		StartedAt: now, Advisor: a.cfg.Advisor.Name(), Trigger: a.ticket.Trigger, Authority: authorityOf(a.material.Endpoint), Outcome: r,
		Verdict: a.verdict, Calls: d.calls, Usage: d.usage, Warnings: d.warnings, Changes: []string{},
	}
	in := a.verdict.NextAnalysisIn
	switch r {
	case Acted, Suggested, Observed:
		s.Changes = d.plan.Words()
	case Stale:
		in = time.Second // Look again at what it has become, as soon as that may be.
	case OverBudget:
		in = now.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour).Sub(now) // Until there is a new day to spend of.
		s.Error = ErrOverBudget.Error()
	case Unreachable:
		if away, is := errors.AsType[*UnavailableError](a.fault); is {
			in = away.RetryIn
		}
		s.Error = "the advisor could not be asked"
	case Failed:
		s.Error = "the advisor failed or took too long"
		a.cfg.Logger.Warn("an advisor failed; the baseline goes on", "endpoint_id", s.EndpointID.String(), "error", a.fault)
	case Unchanged:
	}
	memory := a.ticket.Memory.analysed(Analysis{At: now, Advisor: s.Advisor, Outcome: r, Reasoning: s.Verdict.Reasoning, Tainted: d.tainted()})
	next, notBefore := a.cfg.Rails.again(memory, now, in)
	s.NextAt = next
	c := Closing{Session: s, Memory: memory, NextAt: next, NotBefore: notBefore}
	if last := a.material.Endpoint.State.LastRun; last != nil {
		c.SeenStatus = last.Status
	}
	return c
}

// remember adds the plan's changes to a memory.
func (a *analysis) remember(m Memory) Memory {
	n, direction := a.desk.standing.counts(a.desk.plan)
	if n == 0 {
		return m
	}
	if p := a.desk.plan.Pause; p != nil {
		m.Pauses = append(m.Pauses, Span{From: a.material.Now, Until: a.material.Now.Add(p.For)})
	}
	if direction == 0 {
		direction = m.Direction
	}
	return m.changed(a.material.Now, n, direction)
}

// author is how hints name an advisor.
func author(advisor string) string { return endpoints.PlannerAuthor + advisor }

func (a *analysis) suggestion(s *Session) *Suggestion {
	return &Suggestion{
		ID: NewSuggestionID(), TenantID: s.TenantID, EndpointID: s.EndpointID, SessionID: s.ID, Advisor: s.Advisor, Version: s.Version,
		Plan: a.desk.plan, Reasoning: s.Verdict.Reasoning, CreatedAt: a.material.Now, ExpiresAt: a.material.Now.Add(suggestionLife), State: Pending,
	}
}

// revise puts the plan in force, under the endpoint's lock: the rails judge it again by how the endpoint stands now. An edit that came
// meanwhile wins.
func (a *analysis) revise(e *endpoints.Endpoint, holds []endpoints.Hold, now time.Time) (*endpoints.Recorded, error) {
	if e.Version != a.material.Endpoint.Version {
		return nil, errs.New(errs.Precondition, "version_mismatch", "the endpoint was edited while it was analysed")
	}
	s, err := stand(e, a.ticket.Memory, now)
	if err != nil {
		return nil, err
	}
	s.holds, s.tainted = holds, a.desk.tainted()
	plan, _, err := a.cfg.Rails.judge(s, a.desk.plan)
	if err != nil {
		return nil, err
	}
	name := author(a.cfg.Advisor.Name())
	return e.Take(now, auditlog.Actor{TenantID: e.TenantID, Name: name}, name, plan.advice())
}
