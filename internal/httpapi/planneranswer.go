package httpapi

import (
	"encoding/json"
	"fmt"
	"time"

	"rubato/internal/httpapi/api"
	"rubato/internal/planner"
)

func sessionAnswer(s planner.Session) api.PlannerSession {
	return api.PlannerSession{
		ID:             s.ID.String(),
		EndpointID:     s.EndpointID.String(),
		Version:        s.Version,
		StartedAt:      s.StartedAt.UTC(),
		FinishedAt:     s.FinishedAt.UTC(),
		Advisor:        s.Advisor,
		Trigger:        api.PlannerTrigger(s.Trigger),
		Authority:      string(s.Authority),
		Outcome:        api.PlannerOutcome(s.Outcome),
		Reasoning:      s.Verdict.Reasoning,
		Confidence:     s.Verdict.Confidence,
		NextAnalysisAt: s.NextAt.UTC(),
		Changes:        texts(s.Changes),
		Warnings:       texts(s.Warnings),
		Error:          optional(s.Error),
		Usage: api.PlannerUsage{
			Model:            optional(s.Usage.Model),
			PromptDigest:     optional(s.Usage.PromptDigest),
			PromptTokens:     s.Usage.PromptTokens,
			CompletionTokens: s.Usage.CompletionTokens,
			CostMicros:       s.Usage.CostMicros,
		},
	}
}

// texts returns a list that is one in JSON even where it is empty.
func texts(list []string) []string { return append([]string{}, list...) }

func callAnswers(s planner.Session) ([]api.PlannerCall, error) {
	calls := make([]api.PlannerCall, len(s.Calls))
	for i, c := range s.Calls {
		calls[i] = api.PlannerCall{
			Tool:    string(c.Tool),
			Result:  c.Result,
			Refused: c.Refused,
		}
		if c.Arguments == nil {
			continue
		}
		if err := json.Unmarshal(c.Arguments, &calls[i].Arguments); err != nil {
			return nil, fmt.Errorf("reading the arguments of call %d of session %s: %w", i, s.ID, err)
		}
	}
	return calls, nil
}

func suggestionAnswer(s planner.Suggestion) api.PlannerSuggestion {
	out := api.PlannerSuggestion{
		ID:         s.ID.String(),
		EndpointID: s.EndpointID.String(),
		SessionID:  s.SessionID.String(),
		Advisor:    s.Advisor,
		Reasoning:  s.Reasoning,
		Changes:    texts(s.Plan.Describe()),
		ClearHints: s.Plan.Clear,
		State:      api.PlannerSuggestionState(s.State),
		CreatedAt:  s.CreatedAt.UTC(),
		ExpiresAt:  s.ExpiresAt.UTC(),
		DecidedBy:  optional(s.DecidedBy),
	}
	if !s.DecidedAt.IsZero() {
		out.DecidedAt = new(s.DecidedAt.UTC())
	}
	if h := s.Plan.Interval; h != nil {
		out.Interval = plannerChange(h.Interval, h.TTL, h.Reason)
	}
	if h := s.Plan.NextRun; h != nil {
		out.OneShot = plannerChange(h.In, h.TTL, h.Reason)
	}
	if h := s.Plan.Pause; h != nil {
		out.Pause = plannerChange(h.For, 0, h.Reason)
	}
	return out
}

func plannerChange(span, ttl time.Duration, reason string) *api.PlannerChange {
	c := &api.PlannerChange{SpanMs: span.Milliseconds(), Reason: reason}
	if ttl > 0 {
		c.TTLMs = new(ttl.Milliseconds())
	}
	return c
}
