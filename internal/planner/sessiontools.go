package planner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"rubato/internal/errs"
	"rubato/internal/planner/untrusted"
)

// The bounds of what a session keeps of each call.
const (
	maxArguments = 2000
	maxResult    = 500
	maxToolName  = 64
	maxWarnings  = 20
	maxReasoning = 2000
)

// boundDesk is the desk of one session. Nothing that is done at it leaves it before the session ends.
type sessionTools struct {
	account    Account
	inputs     Inputs
	proposals  proposalContext
	guardrails Guardrails
	evidence   EvidenceStore

	mu       sync.Mutex
	plan     Plan
	calls    []Call
	usage    Usage
	warnings []string
	refused  map[Kind]int
	cut      map[Kind]int
}

var _ Toolset = (*sessionTools)(nil)

// LatestResponse implements Records.
func (d *sessionTools) LatestResponse(ctx context.Context) (Response, error) {
	list, err := d.ownResponses(ctx, ToolLatestResponse, 1)
	if err != nil {
		return Response{}, err
	}
	return list[0], nil
}

// ResponseHistory implements Records.
func (d *sessionTools) ResponseHistory(ctx context.Context, limit int) ([]Response, error) {
	return d.ownResponses(ctx, ToolResponseHistory, max(1, min(limit, MaxResponses)))
}

// answers reads the endpoint's own answers for a call.
func (d *sessionTools) ownResponses(ctx context.Context, tool Tool, limit int) ([]Response, error) {
	arguments := map[string]any{"limit": limit}
	if err := d.beginCall(tool, arguments); err != nil {
		return nil, err
	}
	list, err := d.readResponses(ctx, d.account, limit)
	if err == nil && len(list) == 0 {
		err = errs.New(errs.NotFound, "no_response", "the endpoint has no answer on record")
	}
	d.endCall(fmt.Sprintf("%d answers", len(list)), err)
	return list, err
}

func (d *sessionTools) readResponses(ctx context.Context, a Account, limit int) ([]Response, error) {
	found, err := d.evidence.Responses(ctx, a, limit)
	if err != nil {
		return nil, fmt.Errorf("reading the answers of endpoint %s: %w", a.EndpointID, err)
	}
	list := make([]Response, len(found))
	for i, run := range found {
		list[i] = newResponse(run)
	}
	return list, nil
}

// SiblingResponses implements Records.
func (d *sessionTools) SiblingResponses(ctx context.Context) ([]SiblingResponse, error) {
	if err := d.beginCall(ToolSiblingResponses, nil); err != nil {
		return nil, err
	}
	d.taint()
	var list []SiblingResponse
	for _, fellow := range d.inputs.Siblings {
		e := fellow.Endpoint
		found, err := d.readResponses(ctx, Account{TenantID: d.account.TenantID, EndpointID: e.ID}, 1)
		if err != nil {
			d.endCall("", err)
			return nil, err
		}
		for _, answer := range found {
			list = append(list, SiblingResponse{Sibling: e.Spec.Name, Role: e.Spec.Labels[RoleLabel], Response: answer})
		}
	}
	d.endCall(fmt.Sprintf("%d siblings answered", len(list)), nil)
	return list, nil
}

// taint marks the session as one that reads an answer of a sibling, before it does. What was proposed until then and no such session may
// do is dropped: the verdict is still to come, and the answer may have written that.
func (d *sessionTools) taint() {
	d.mu.Lock()
	d.proposals.tainted = true
	kept := d.plan
	if d.proposals.checkTainted(Plan{Pause: kept.Pause}) != nil {
		kept.Pause = nil
	}
	if d.proposals.checkTainted(Plan{Clear: kept.Clear, Interval: kept.Interval}) != nil {
		kept.Clear, kept.Interval = false, nil
	}
	dropped := kept != d.plan
	d.plan = kept
	d.mu.Unlock()
	if dropped {
		d.Warn("a proposal of a pause or a longer interval was dropped, because the session went on to read the answer of a sibling")
	}
}

// tainted reports whether the session has read an answer of a sibling.
func (d *sessionTools) tainted() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.proposals.tainted
}

// ProposeInterval implements Proposals.
func (d *sessionTools) ProposeInterval(_ context.Context, p IntervalProposal) (ProposalResult, error) {
	arguments := map[string]any{"intervalMs": p.Interval.Milliseconds(), "ttlMs": p.TTL.Milliseconds(), "reason": p.Reason}
	return d.propose(ToolProposeInterval, arguments, KindInterval, func(plan *Plan) error {
		plan.Interval = &p
		return requireReason(p.Reason)
	})
}

// ProposeNextRun implements Proposals.
func (d *sessionTools) ProposeNextRun(_ context.Context, p NextRunProposal) (ProposalResult, error) {
	arguments := map[string]any{"inMs": p.In.Milliseconds(), "ttlMs": p.TTL.Milliseconds(), "reason": p.Reason}
	return d.propose(ToolProposeNextRun, arguments, KindOneShot, func(plan *Plan) error {
		plan.NextRun = &p
		return requireReason(p.Reason)
	})
}

// PauseUntil implements Proposals.
func (d *sessionTools) PauseUntil(_ context.Context, p PauseProposal) (ProposalResult, error) {
	arguments := map[string]any{"forMs": p.For.Milliseconds(), "reason": p.Reason}
	return d.propose(ToolPauseUntil, arguments, KindPause, func(plan *Plan) error {
		plan.Pause = &p
		return requireReason(p.Reason)
	})
}

// ClearHints implements Proposals.
func (d *sessionTools) ClearHints(_ context.Context, reason string) (ProposalResult, error) {
	return d.propose(ToolClearHints, map[string]any{"reason": reason}, KindClear, func(plan *Plan) error {
		plan.Clear, plan.Interval, plan.NextRun = true, nil, nil
		return requireReason(reason)
	})
}

// required refuses a change that gives no reason: whoever sees it has to know why.
func requireReason(reason string) error {
	if strings.TrimSpace(reason) == "" {
		return errs.InvalidFields([]errs.Field{{Field: "reason", Code: "required", Message: "say why, for whoever sees the hint"}})
	}
	return nil
}

// propose judges the plan as a proposal would leave it, and keeps it where the rails let it pass.
func (d *sessionTools) propose(tool Tool, arguments map[string]any, kind Kind, change func(*Plan) error) (ProposalResult, error) {
	if err := d.beginCall(tool, arguments); err != nil {
		return ProposalResult{}, err
	}
	d.mu.Lock()
	plan := d.plan
	d.mu.Unlock()
	err := change(&plan)
	var ruling ProposalResult
	if err == nil {
		plan, ruling, err = d.guardrails.evaluate(d.proposalContext(), plan)
	}
	d.mu.Lock()
	switch {
	case err != nil:
		d.refused[kind]++
	default:
		d.plan = plan
		if ruling.Note != "" {
			d.cut[kind]++
		}
	}
	d.mu.Unlock()
	d.endCall(strings.Join([]string{"taken", ruling.Note}, " "), err)
	return ruling, err
}

// current returns what a proposal is judged against.
func (d *sessionTools) proposalContext() proposalContext {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.proposals
}

// enter begins a call.
func (d *sessionTools) beginCall(tool Tool, arguments map[string]any) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.calls) >= MaxCalls-1 { // The last one submits.
		return ErrTooManyCalls
	}
	call := Call{Tool: tool}
	if arguments != nil {
		raw, err := json.Marshal(arguments)
		if err != nil { // Numbers and texts always can be.
			return fmt.Errorf("encoding the arguments of %s: %w", tool, err)
		}
		call.Arguments = storableArguments(raw)
	}
	d.calls = append(d.calls, call)
	return nil
}

// leave ends the call that was begun last.
func (d *sessionTools) endCall(result string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	last := &d.calls[len(d.calls)-1]
	if err != nil {
		last.Refused = true
		result = errorText(err)
	}
	last.Result = clean(strings.TrimSpace(result), maxResult)
}

// told returns what an advisor may read of an error.
func errorText(err error) string {
	fault, is := errors.AsType[*errs.Error](err)
	if !is {
		return "this could not be done at the moment"
	}
	words := []string{fault.Message}
	for _, f := range fault.Fields {
		words = append(words, f.Field+": "+f.Message)
	}
	return strings.Join(words, "; ")
}

// Refuse implements Journal.
func (d *sessionTools) RecordRefusal(c Call) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.calls) >= MaxCalls-1 {
		return
	}
	name := clean(string(c.Tool), maxToolName)
	c.Tool, c.Refused = Tool(name), true
	c.Arguments = storableArguments(c.Arguments)
	c.Result = clean(c.Result, maxResult)
	d.calls = append(d.calls, c)
}

// kept returns arguments as they can be kept: JSON of bounded length that the database takes whatever an advisor wrote.
func storableArguments(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	return untrusted.Storable(string(raw), maxArguments)
}

// forget drops the calls of a session whose record was refused for one of its values, and says so.
func (d *sessionTools) dropCalls() {
	d.mu.Lock()
	d.warnings = d.warnings[:min(len(d.warnings), maxWarnings-1)]
	calls := len(d.calls)
	d.calls = nil
	d.mu.Unlock()
	d.Warn(fmt.Sprintf("the database refused a value of this session, so its %d calls are not on record", calls))
}

// Spend implements Journal.
func (d *sessionTools) AddUsage(u Usage) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if u.Model != "" {
		d.usage.Model = clean(u.Model, 100)
	}
	if u.PromptDigest != "" {
		d.usage.PromptDigest = clean(u.PromptDigest, 100)
	}
	d.usage.PromptTokens += max(0, u.PromptTokens)
	d.usage.CompletionTokens += max(0, u.CompletionTokens)
	d.usage.CostMicros += max(0, u.CostMicros)
}

// Warn implements Journal.
func (d *sessionTools) Warn(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.warnings) < maxWarnings {
		text = clean(text, maxResult)
		d.warnings = append(d.warnings, text)
	}
}

// submit notes the verdict, within bounds.
func (d *sessionTools) submit(v Verdict) Verdict {
	v.Reasoning = clean(v.Reasoning, maxReasoning)
	if !(v.Confidence >= 0 && v.Confidence <= 1) { // Not a number is neither.
		v.Confidence = 0
		d.Warn("the confidence was no number from 0 to 1")
	}
	v.NextAnalysisIn = max(0, v.NextAnalysisIn.Truncate(time.Millisecond))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, Call{Tool: ToolSubmit, Result: "the session is over"})
	return v
}
