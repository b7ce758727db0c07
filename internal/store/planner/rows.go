package planner

import (
	"encoding/json"
	"fmt"
	"time"

	"rubato/internal/auditlog"
	"rubato/internal/planner"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// plannerAct is a change of hints by the planner.
func plannerAct(tenant [16]byte, name string) auditlog.Act {
	return auditlog.Act{By: auditlog.Actor{TenantID: tenant, Name: name}, Action: auditlog.Hint}
}

func writeJSON(v any, what string) (json.RawMessage, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", what, err)
	}
	return raw, nil
}

func readJSON(raw json.RawMessage, v any, what string) error {
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("reading %s: %w", what, err)
	}
	return nil
}

func sessionRow(s *planner.Session) (row dbsqlc.PlannerSessionInsertParams, err error) {
	row = dbsqlc.PlannerSessionInsertParams{
		ID:               s.ID,
		TenantID:         s.TenantID,
		EndpointID:       s.EndpointID,
		Version:          s.Version,
		StartedAt:        s.StartedAt,
		FinishedAt:       s.FinishedAt,
		Advisor:          s.Advisor,
		Trigger:          string(s.Trigger),
		Authority:        string(s.Authority),
		Outcome:          string(s.Outcome),
		Reasoning:        pg.Storable(s.Verdict.Reasoning),
		Confidence:       s.Verdict.Confidence,
		NextAnalysisAt:   s.NextAt,
		Error:            pg.Storable(s.Error),
		Model:            s.Usage.Model,
		PromptDigest:     s.Usage.PromptDigest,
		PromptTokens:     s.Usage.PromptTokens,
		CompletionTokens: s.Usage.CompletionTokens,
		CostMicros:       s.Usage.CostMicros,
	}
	for field, list := range map[*json.RawMessage]any{
		&row.Calls: pg.NotNull(s.Calls), &row.Changes: pg.NotNull(s.Changes), &row.Warnings: pg.NotNull(s.Warnings),
	} {
		if *field, err = writeJSON(list, "session "+s.ID.String()); err != nil {
			return row, err
		}
	}
	return row, nil
}

func sessionOf(row *dbsqlc.PlannerSession) (planner.Session, error) {
	s := planner.Session{
		ID:         planner.SessionID(row.ID),
		TenantID:   row.TenantID,
		EndpointID: row.EndpointID,
		Version:    row.Version,
		StartedAt:  row.StartedAt,
		FinishedAt: row.FinishedAt,
		Advisor:    row.Advisor,
		Trigger:    planner.Trigger(row.Trigger),
		Authority:  planner.Authority(row.Authority),
		Outcome:    planner.Result(row.Outcome),
		NextAt:     row.NextAnalysisAt,
		Error:      row.Error,
		Verdict: planner.Verdict{
			Reasoning:      row.Reasoning,
			Confidence:     row.Confidence,
			NextAnalysisIn: row.NextAnalysisAt.Sub(row.StartedAt),
		},
		Usage: planner.Usage{
			Model:            row.Model,
			PromptDigest:     row.PromptDigest,
			PromptTokens:     row.PromptTokens,
			CompletionTokens: row.CompletionTokens,
			CostMicros:       row.CostMicros,
		},
	}
	for raw, list := range map[*json.RawMessage]any{&row.Calls: &s.Calls, &row.Changes: &s.Changes, &row.Warnings: &s.Warnings} {
		if err := readJSON(*raw, list, "session "+s.ID.String()); err != nil {
			return s, err
		}
	}
	return s, nil
}

// storedPlan is a plan in the form of a row: durations in whole milliseconds.
type storedPlan struct {
	Clear    bool            `json:"clear,omitempty"`
	Interval *storedProposal `json:"interval,omitempty"`
	NextRun  *storedProposal `json:"nextRun,omitempty"`
	Pause    *storedProposal `json:"pause,omitempty"`
}

type storedProposal struct {
	SpanMs int64  `json:"spanMs"` // interval, time until the run, or duration of the pause
	TTLMs  int64  `json:"ttlMs,omitempty"`
	Reason string `json:"reason"`
	// OutageSince is the start of the outage of an interval; null: none.
	OutageSince *time.Time `json:"outageSince,omitempty"`
}

func planRow(p planner.Plan) storedPlan {
	stored := storedPlan{Clear: p.Clear}
	keep := func(span, ttl time.Duration, reason string) *storedProposal {
		return &storedProposal{
			SpanMs: span.Milliseconds(),
			TTLMs:  ttl.Milliseconds(),
			Reason: pg.Storable(reason),
		}
	}
	if h := p.Interval; h != nil {
		stored.Interval = keep(h.Interval, h.TTL, h.Reason)
		stored.Interval.OutageSince = pg.Optional(h.OutageSince)
	}
	if h := p.NextRun; h != nil {
		stored.NextRun = keep(h.In, h.TTL, h.Reason)
	}
	if h := p.Pause; h != nil {
		stored.Pause = keep(h.For, 0, h.Reason)
	}
	return stored
}

func (p storedPlan) plan() planner.Plan {
	plan := planner.Plan{Clear: p.Clear}
	if h := p.Interval; h != nil {
		plan.Interval = &planner.IntervalProposal{
			Interval:    pg.Millis(h.SpanMs),
			TTL:         pg.Millis(h.TTLMs),
			Reason:      h.Reason,
			OutageSince: pg.OrZero(h.OutageSince),
		}
	}
	if h := p.NextRun; h != nil {
		plan.NextRun = &planner.NextRunProposal{
			In:     pg.Millis(h.SpanMs),
			TTL:    pg.Millis(h.TTLMs),
			Reason: h.Reason,
		}
	}
	if h := p.Pause; h != nil {
		plan.Pause = &planner.PauseProposal{For: pg.Millis(h.SpanMs), Reason: h.Reason}
	}
	return plan
}

func suggestionRow(s *planner.Suggestion) (dbsqlc.PlannerSuggestionInsertParams, error) {
	plan, err := writeJSON(planRow(s.Plan), "suggestion "+s.ID.String())
	return dbsqlc.PlannerSuggestionInsertParams{
		ID:         s.ID,
		TenantID:   s.TenantID,
		EndpointID: s.EndpointID,
		SessionID:  s.SessionID,
		Advisor:    s.Advisor,
		Version:    s.Version,
		Plan:       plan,
		Reasoning:  pg.Storable(s.Reasoning),
		CreatedAt:  s.CreatedAt,
		ExpiresAt:  s.ExpiresAt,
	}, err
}

func suggestionOf(row *dbsqlc.PlannerSuggestion, now time.Time) (planner.Suggestion, error) {
	s := planner.Suggestion{
		ID:         planner.SuggestionID(row.ID),
		TenantID:   row.TenantID,
		EndpointID: row.EndpointID,
		SessionID:  planner.SessionID(row.SessionID),
		Advisor:    row.Advisor,
		Version:    row.Version,
		Reasoning:  row.Reasoning,
		CreatedAt:  row.CreatedAt,
		ExpiresAt:  row.ExpiresAt,
		State:      planner.SuggestionState(row.State),
		DecidedAt:  pg.OrZero(row.DecidedAt),
		DecidedBy:  pg.OrZero(row.DecidedBy),
	}
	waited := s.State == planner.Pending && !s.ExpiresAt.After(now) || s.State == planner.Replaced && !s.ExpiresAt.After(s.DecidedAt)
	if waited { // It expired without a decision, even if another one replaced it since.
		s.State, s.DecidedAt = planner.Expired, time.Time{}
	}
	var stored storedPlan
	err := readJSON(row.Plan, &stored, "suggestion "+s.ID.String())
	s.Plan = stored.plan()
	return s, err
}
