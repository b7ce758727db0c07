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

// Limits on the recorded calls of a session.
const (
	maxArguments = 2000
	maxResult    = 500
	maxToolName  = 64
	maxWarnings  = 20
	maxReasoning = 2000
)

// sessionTools is the toolset of one session. It buffers proposals and records in memory; only the
// end of the session writes them. The mutex guards the fields below it, because an advisor may call
// from several goroutines.
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

// LatestResponse implements ResponseReader.
func (d *sessionTools) LatestResponse(ctx context.Context) (Response, error) {
	list, err := d.ownResponses(ctx, ToolLatestResponse, 1)
	if err != nil {
		return Response{}, err
	}
	return list[0], nil
}

// ResponseHistory implements ResponseReader.
func (d *sessionTools) ResponseHistory(ctx context.Context, limit int) ([]Response, error) {
	return d.ownResponses(ctx, ToolResponseHistory, max(1, min(limit, MaxResponses)))
}

// ownResponses reads the endpoint's own responses.
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
		return nil, fmt.Errorf("read responses of endpoint %s: %w", a.EndpointID, err)
	}
	list := make([]Response, len(found))
	for i, run := range found {
		list[i] = newResponse(run)
	}
	return list, nil
}

// SiblingResponses implements ResponseReader.
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
			list = append(list, SiblingResponse{
				Sibling:  e.Spec.Name,
				Role:     e.Spec.Labels[RoleLabel],
				Response: answer,
			})
		}
	}
	d.endCall(fmt.Sprintf("%d siblings answered", len(list)), nil)
	return list, nil
}

// taint marks the session as tainted before a sibling's response is read. It drops proposals that a
// tainted session may not make, because the response may influence the advisor's final verdict on
// them.
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

// tainted reports whether the session has read a sibling's response.
func (d *sessionTools) tainted() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.proposals.tainted
}

// ProposeInterval implements Proposer.
func (d *sessionTools) ProposeInterval(_ context.Context, p IntervalProposal) (ProposalResult, error) {
	arguments := map[string]any{"intervalMs": p.Interval.Milliseconds(), "ttlMs": p.TTL.Milliseconds(), "reason": p.Reason}
	return d.propose(ToolProposeInterval, arguments, KindInterval, func(plan *Plan) error {
		plan.Interval = &p
		return requireReason(p.Reason)
	})
}

// ProposeNextRun implements Proposer.
func (d *sessionTools) ProposeNextRun(_ context.Context, p NextRunProposal) (ProposalResult, error) {
	arguments := map[string]any{"inMs": p.In.Milliseconds(), "ttlMs": p.TTL.Milliseconds(), "reason": p.Reason}
	return d.propose(ToolProposeNextRun, arguments, KindOneShot, func(plan *Plan) error {
		plan.NextRun = &p
		return requireReason(p.Reason)
	})
}

// PauseUntil implements Proposer.
func (d *sessionTools) PauseUntil(_ context.Context, p PauseProposal) (ProposalResult, error) {
	arguments := map[string]any{"forMs": p.For.Milliseconds(), "reason": p.Reason}
	return d.propose(ToolPauseUntil, arguments, KindPause, func(plan *Plan) error {
		plan.Pause = &p
		return requireReason(p.Reason)
	})
}

// ClearHints implements Proposer.
func (d *sessionTools) ClearHints(_ context.Context, reason string) (ProposalResult, error) {
	return d.propose(ToolClearHints, map[string]any{"reason": reason}, KindClear, func(plan *Plan) error {
		plan.Clear, plan.Interval, plan.NextRun = true, nil, nil
		return requireReason(reason)
	})
}

// requireReason refuses a change without a reason, because readers of the hint need one.
func requireReason(reason string) error {
	if strings.TrimSpace(reason) == "" {
		return errs.InvalidFields([]errs.Field{{
			Field:   "reason",
			Code:    "required",
			Message: "must say why: it is shown with the hint",
		}})
	}
	return nil
}

// propose evaluates the plan with the proposed change, and keeps it if the guardrails accept it.
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

// proposalContext returns the state for checking a proposal.
func (d *sessionTools) proposalContext() proposalContext {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.proposals
}

// beginCall records a call, or returns ErrTooManyCalls. The last call is reserved for the
// submission.
func (d *sessionTools) beginCall(tool Tool, arguments map[string]any) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.calls) >= MaxCalls-1 {
		return ErrTooManyCalls
	}
	call := Call{Tool: tool}
	if arguments != nil {
		raw, err := json.Marshal(arguments)
		if err != nil {
			return fmt.Errorf("encode arguments of %s: %w", tool, err)
		}
		call.Arguments = storableArguments(raw)
	}
	d.calls = append(d.calls, call)
	return nil
}

// endCall records the result of the newest call.
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

// errorText returns the part of an error that is safe to show to an advisor.
func errorText(err error) string {
	fault, is := errors.AsType[*errs.Error](err)
	if !is {
		return "temporarily not possible"
	}
	words := []string{fault.Message}
	for _, f := range fault.Fields {
		words = append(words, f.Field+": "+f.Message)
	}
	return strings.Join(words, "; ")
}

// RecordRefusal implements Recorder.
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

// storableArguments returns arguments in a form that the database always accepts: JSON of bounded
// length.
func storableArguments(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	return untrusted.Storable(string(raw), maxArguments)
}

// dropCalls removes the calls from a session after the database rejected its record, and adds a
// warning.
func (d *sessionTools) dropCalls() {
	d.mu.Lock()
	d.warnings = d.warnings[:min(len(d.warnings), maxWarnings-1)]
	calls := len(d.calls)
	d.calls = nil
	d.mu.Unlock()
	d.Warn(fmt.Sprintf("the database refused a value of this session, so its %d calls are not on record", calls))
}

// AddUsage implements Recorder.
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

// Warn implements Recorder.
func (d *sessionTools) Warn(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.warnings) < maxWarnings {
		text = clean(text, maxResult)
		d.warnings = append(d.warnings, text)
	}
}

// submit records the verdict and limits its values.
func (d *sessionTools) submit(v Verdict) Verdict {
	v.Reasoning = clean(v.Reasoning, maxReasoning)
	if !(v.Confidence >= 0 && v.Confidence <= 1) { // also false for NaN
		v.Confidence = 0
		d.Warn("the confidence was no number from 0 to 1")
	}
	v.NextAnalysisIn = max(0, v.NextAnalysisIn.Truncate(time.Millisecond))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, Call{Tool: ToolSubmit, Result: "the session is over"})
	return v
}
