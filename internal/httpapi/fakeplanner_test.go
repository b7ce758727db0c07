package httpapi_test

import (
	"context"
	"time"

	"rubato/internal/auditlog"
	"rubato/internal/auth"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/planner"
)

// The session and the suggestion of these tests, which belong to the tenant 1.
var (
	sampleSession    = planner.SessionID{1, 0xa0, 6: 0x70, 8: 0x80}
	sampleSuggestion = planner.SuggestionID{1, 0xa1, 6: 0x70, 8: 0x80}
)

// reviews is a planner.Reviews without a database.
type reviews struct{ m *memory }

var (
	_ planner.Reviews = reviews{}
	_ planner.Undoer  = reviews{}
)

func (r reviews) session() planner.Session {
	return planner.Session{
		ID: sampleSession, TenantID: auth.DefaultTenant(), EndpointID: [16]byte{9}, Version: 1, StartedAt: now, FinishedAt: now, Advisor: "heuristic",
		Trigger: planner.TimeReached, Authority: planner.Act, Outcome: planner.Acted, NextAt: now.Add(time.Hour),
		Verdict: planner.Verdict{Reasoning: "its answers change", Confidence: 0.5}, Changes: []string{"run every 1m0s for 1h0m0s: it changes"},
		Calls: []planner.Call{
			{Tool: planner.ToolProposeInterval, Arguments: []byte(`{"intervalMs":60000}`), Result: "taken"},
			{Tool: "delete_everything", Arguments: []byte(`"no JSON"`), Result: "there is no such tool", Refused: true},
		},
	}
}

func (r reviews) suggestion() planner.Suggestion {
	return planner.Suggestion{
		ID: sampleSuggestion, TenantID: auth.DefaultTenant(), EndpointID: [16]byte{9}, SessionID: sampleSession, Advisor: "heuristic", Version: 1,
		Plan: planner.Plan{
			Clear:    true,
			Interval: &planner.IntervalProposal{Interval: time.Minute, TTL: time.Hour, Reason: "a"},
			NextRun:  &planner.NextRunProposal{In: time.Second, TTL: time.Hour, Reason: "b"},
			Pause:    &planner.PauseProposal{For: time.Minute, Reason: "c"},
		},
		Reasoning: "r", CreatedAt: now, ExpiresAt: now.Add(time.Hour), State: planner.Pending,
	}
}

func (r reviews) Sessions(_ context.Context, f planner.SessionFilter) ([]planner.Session, error) {
	if r.m.err != nil || f.TenantID != auth.DefaultTenant() || f.Before != (planner.SessionID{}) {
		return nil, r.m.err
	}
	return []planner.Session{r.session(), r.session()}[:min(2, f.Limit)], nil
}

func (r reviews) Session(_ context.Context, tenant [16]byte, id planner.SessionID) (planner.Session, error) {
	if r.m.err != nil {
		return planner.Session{}, r.m.err
	}
	if tenant != auth.DefaultTenant() || id != sampleSession {
		return planner.Session{}, errs.New(errs.NotFound, "not_found", "there is no such session")
	}
	return r.session(), nil
}

func (r reviews) Undo(ctx context.Context, by auditlog.Actor, id planner.SessionID) (*endpoints.Endpoint, []errs.Field, error) {
	session, err := r.Session(ctx, by.TenantID, id)
	if err != nil {
		return nil, nil, err
	}
	e := &endpoints.Endpoint{ID: session.EndpointID, TenantID: by.TenantID, Version: 1, CreatedAt: now, UpdatedAt: now, Spec: endpoints.Defaults()}
	e.Spec.Name, e.Spec.URL, e.Spec.BaselineInterval = "n", "https://example.com/", time.Minute
	if _, err := e.Replan(now); err != nil {
		return nil, nil, err
	}
	return e, []errs.Field{{Field: "hints.interval", Code: "hint_removed", Message: "removed the hint of planner:heuristic"}}, nil
}

func (r reviews) Suggestions(_ context.Context, f planner.SuggestionFilter) ([]planner.Suggestion, error) {
	if r.m.err != nil || f.TenantID != auth.DefaultTenant() {
		return nil, r.m.err
	}
	return []planner.Suggestion{r.suggestion()}, nil
}

func (r reviews) Decide(_ context.Context, by auditlog.Actor, id planner.SuggestionID, approve bool) (planner.Suggestion, error) {
	if r.m.err != nil {
		return planner.Suggestion{}, r.m.err
	}
	if by.TenantID != auth.DefaultTenant() || id != sampleSuggestion {
		return planner.Suggestion{}, errs.New(errs.NotFound, "not_found", "there is no such suggestion")
	}
	r.m.mu.Lock()
	r.m.writes++
	r.m.mu.Unlock()
	decided := r.suggestion()
	decided.State, decided.DecidedAt, decided.DecidedBy = planner.Rejected, now, by.Name
	if approve {
		decided.State = planner.Approved
	}
	return decided, nil
}

func (r reviews) Spending(context.Context, [16]byte) (planner.Spending, error) {
	return planner.Spending{
		Day: "2098-11-21", Tokens: 5, Limit: 10, Left: 4, PerEndpoint: 3, ResetAt: now, Top: []planner.EndpointSpending{{EndpointID: [16]byte{9}, Tokens: 5}},
	}, r.m.err
}
