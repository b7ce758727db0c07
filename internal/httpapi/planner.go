package httpapi

import (
	"context"

	"rubato/internal/httpapi/api"
	"rubato/internal/planner"
)

// ListPlannerSessions returns a page of analyses.
func (s *Server) ListPlannerSessions(ctx context.Context, r api.ListPlannerSessionsRequestObject) (api.ListPlannerSessionsResponseObject, error) {
	f := planner.SessionFilter{TenantID: principalOf(ctx).TenantID, Limit: limitOf(r.Params.Limit) + 1}
	setWord(&f.Outcome, r.Params.Outcome)
	var err error
	if f.EndpointID, err = endpointNamed(r.Params.EndpointID); err != nil {
		return nil, err
	}
	digest := filterDigest("planner-sessions", f.TenantID, f.EndpointID, f.Outcome)
	before, err := resume(r.Params.Cursor, digest)
	if err != nil {
		return nil, err
	}
	f.Before = before
	found, err := s.planner.Sessions(ctx, f)
	if err != nil {
		return nil, err
	}
	out := api.PlannerSessionList{Items: []api.PlannerSession{}}
	found, more := page(found, f.Limit)
	for _, session := range found {
		out.Items = append(out.Items, sessionAnswer(session))
	}
	if more {
		out.NextCursor = new(cursor(found[len(found)-1].ID, digest))
	}
	return api.ListPlannerSessions200JSONResponse(out), nil
}

// GetPlannerSession returns an analysis with everything that it called.
func (s *Server) GetPlannerSession(ctx context.Context, r api.GetPlannerSessionRequestObject) (api.GetPlannerSessionResponseObject, error) {
	id, err := planner.ParseSessionID(r.ID)
	if err != nil {
		return nil, err
	}
	found, err := s.planner.Session(ctx, principalOf(ctx).TenantID, id)
	if err != nil {
		return nil, err
	}
	out := sessionAnswer(found)
	calls, err := callAnswers(found)
	out.Calls = &calls
	return api.GetPlannerSession200JSONResponse(out), err
}

// UndoPlannerSession removes the changes of an analysis.
func (s *Server) UndoPlannerSession(ctx context.Context, r api.UndoPlannerSessionRequestObject) (api.UndoPlannerSessionResponseObject, error) {
	id, err := planner.ParseSessionID(r.ID)
	if err != nil {
		return nil, err
	}
	e, removed, err := s.undo.Undo(ctx, actorOf(ctx), id)
	if err != nil {
		return nil, err
	}
	return api.UndoPlannerSession200JSONResponse{EndpointJSONResponse: changed(e, removed)}, nil
}

// ListPlannerSuggestions returns a page of suggestions.
func (s *Server) ListPlannerSuggestions(
	ctx context.Context, r api.ListPlannerSuggestionsRequestObject,
) (api.ListPlannerSuggestionsResponseObject, error) {
	f := planner.SuggestionFilter{TenantID: principalOf(ctx).TenantID, Limit: limitOf(r.Params.Limit) + 1}
	setWord(&f.State, r.Params.State)
	var err error
	if f.EndpointID, err = endpointNamed(r.Params.EndpointID); err != nil {
		return nil, err
	}
	digest := filterDigest("planner-suggestions", f.TenantID, f.EndpointID, f.State)
	before, err := resume(r.Params.Cursor, digest)
	if err != nil {
		return nil, err
	}
	f.Before = before
	found, err := s.planner.Suggestions(ctx, f)
	if err != nil {
		return nil, err
	}
	out := api.PlannerSuggestionList{Items: []api.PlannerSuggestion{}}
	found, more := page(found, f.Limit)
	for _, suggestion := range found {
		out.Items = append(out.Items, suggestionAnswer(suggestion))
	}
	if more {
		out.NextCursor = new(cursor(found[len(found)-1].ID, digest))
	}
	return api.ListPlannerSuggestions200JSONResponse(out), nil
}

// ApprovePlannerSuggestion puts a suggestion in force.
func (s *Server) ApprovePlannerSuggestion(
	ctx context.Context, r api.ApprovePlannerSuggestionRequestObject,
) (api.ApprovePlannerSuggestionResponseObject, error) {
	decided, err := s.decideSuggestion(ctx, r.ID, true)
	return api.ApprovePlannerSuggestion200JSONResponse(decided), err
}

// RejectPlannerSuggestion turns a suggestion down.
func (s *Server) RejectPlannerSuggestion(
	ctx context.Context, r api.RejectPlannerSuggestionRequestObject,
) (api.RejectPlannerSuggestionResponseObject, error) {
	decided, err := s.decideSuggestion(ctx, r.ID, false)
	return api.RejectPlannerSuggestion200JSONResponse(decided), err
}

func (s *Server) decideSuggestion(ctx context.Context, text string, approve bool) (api.PlannerSuggestion, error) {
	id, err := planner.ParseSuggestionID(text)
	if err != nil {
		return api.PlannerSuggestion{}, err
	}
	decided, err := s.planner.Decide(ctx, actorOf(ctx), id, approve)
	if err != nil {
		return api.PlannerSuggestion{}, err
	}
	return suggestionAnswer(decided), nil
}

// GetPlannerBudget returns what models have cost the tenant today.
func (s *Server) GetPlannerBudget(ctx context.Context, _ api.GetPlannerBudgetRequestObject) (api.GetPlannerBudgetResponseObject, error) {
	spent, err := s.planner.Spending(ctx, principalOf(ctx).TenantID)
	if err != nil {
		return nil, err
	}
	out := api.GetPlannerBudget200JSONResponse{
		Day:                spent.Day,
		Tokens:             spent.Tokens,
		TokenLimit:         spent.Limit,
		TokensLeft:         spent.Left,
		EndpointTokenLimit: spent.PerEndpoint,
		ResetAt:            spent.ResetAt.UTC(),
		Endpoints:          []api.PlannerEndpointTokens{},
	}
	for _, e := range spent.Top {
		out.Endpoints = append(out.Endpoints, api.PlannerEndpointTokens{EndpointID: e.EndpointID.String(), Tokens: e.Tokens})
	}
	return out, nil
}
