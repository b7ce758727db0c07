package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	"rubato/internal/chains"
	"rubato/internal/httpapi/api"
	"rubato/internal/runs"
)

// PutChain stores a chain, or replaces its definition.
func (s *Server) PutChain(ctx context.Context, r api.PutChainRequestObject) (api.PutChainResponseObject, error) {
	if in := inputOf(ctx); in.bad() {
		return nil, in.refuse(nil)
	}
	definition, err := converted[chains.Definition](r.Body)
	if err != nil {
		return nil, err
	}
	definition.Name = r.Name
	stored, created, err := s.chains.Put(ctx, actorOf(ctx), definition)
	if err != nil {
		return nil, err
	}
	out, err := chainAnswer(stored)
	if err != nil {
		return nil, err
	}
	if warnings := stored.Warnings(); len(warnings) > 0 {
		out.Warnings = new(fieldErrors(warnings))
	}
	if created {
		return api.PutChain201JSONResponse{
			Body:    out,
			Headers: api.PutChain201ResponseHeaders{Location: "/v1/chains/" + url.PathEscape(stored.Name)},
		}, nil
	}
	return api.PutChain200JSONResponse(out), nil
}

// GetChain returns a chain.
func (s *Server) GetChain(ctx context.Context, r api.GetChainRequestObject) (api.GetChainResponseObject, error) {
	chain, err := s.chains.Get(ctx, principalOf(ctx).TenantID, r.Name)
	if err != nil {
		return nil, err
	}
	out, err := chainAnswer(chain)
	if err != nil {
		return nil, err
	}
	return api.GetChain200JSONResponse(out), nil
}

// DeleteChain deletes a chain.
func (s *Server) DeleteChain(ctx context.Context, r api.DeleteChainRequestObject) (api.DeleteChainResponseObject, error) {
	if err := s.chains.Delete(ctx, actorOf(ctx), r.Name); err != nil {
		return nil, err
	}
	return api.DeleteChain204Response{}, nil
}

// ListChains returns a page of chains.
func (s *Server) ListChains(ctx context.Context, r api.ListChainsRequestObject) (api.ListChainsResponseObject, error) {
	digest := filterDigest("chains", principalOf(ctx).TenantID)
	after, err := resumeName(r.Params.Cursor, digest, chains.ValidName)
	if err != nil {
		return nil, err
	}
	limit := limitOf(r.Params.Limit) + 1
	found, err := s.chains.List(ctx, principalOf(ctx).TenantID, after, limit)
	if err != nil {
		return nil, err
	}
	out := api.ChainList{Items: []api.Chain{}}
	found, more := page(found, limit)
	for _, c := range found {
		answer, err := chainAnswer(c)
		if err != nil {
			return nil, err
		}
		out.Items = append(out.Items, answer)
	}
	if more {
		out.NextCursor = new(nameCursor(found[len(found)-1].Name, digest))
	}
	return api.ListChains200JSONResponse(out), nil
}

// RunChain starts a run of a chain.
func (s *Server) RunChain(ctx context.Context, r api.RunChainRequestObject) (api.RunChainResponseObject, error) {
	if in := inputOf(ctx); in.bad() {
		return nil, in.refuse(nil)
	}
	var input json.RawMessage
	var key string
	if r.Body != nil {
		set(&key, r.Body.IdempotencyKey)
		if r.Body.Input != nil {
			raw, err := json.Marshal(r.Body.Input)
			if err != nil {
				return nil, fmt.Errorf("encoding the input of chain %s: %w", r.Name, err)
			}
			input = raw
		}
	}
	started, _, err := s.chains.Start(ctx, actorOf(ctx), r.Name, input, key)
	if err != nil {
		return nil, err
	}
	out, err := chainRunAnswer(started, nil)
	return api.RunChain202JSONResponse(out), err
}

// ListChainRuns returns a page of runs of a chain.
func (s *Server) ListChainRuns(ctx context.Context, r api.ListChainRunsRequestObject) (api.ListChainRunsResponseObject, error) {
	digest := filterDigest("chain-runs", principalOf(ctx).TenantID, r.Name)
	before, err := resume(r.Params.Cursor, digest)
	if err != nil {
		return nil, err
	}
	limit := limitOf(r.Params.Limit) + 1
	found, err := s.chains.Runs(ctx, principalOf(ctx).TenantID, r.Name, before, limit)
	if err != nil {
		return nil, err
	}
	out := api.ChainRunList{Items: []api.ChainRun{}}
	found, more := page(found, limit)
	for _, run := range found {
		answer, err := chainRunAnswer(run, nil)
		if err != nil {
			return nil, err
		}
		out.Items = append(out.Items, answer)
	}
	if more {
		out.NextCursor = new(cursor(found[len(found)-1].ID, digest))
	}
	return api.ListChainRuns200JSONResponse(out), nil
}

// GetChainRun returns a run of a chain with its steps.
func (s *Server) GetChainRun(ctx context.Context, r api.GetChainRunRequestObject) (api.GetChainRunResponseObject, error) {
	out, err := s.chainRun(ctx, r.ID)
	return api.GetChainRun200JSONResponse(out), err
}

// CancelChainRun asks for the end of a run of a chain.
func (s *Server) CancelChainRun(ctx context.Context, r api.CancelChainRunRequestObject) (api.CancelChainRunResponseObject, error) {
	id, err := chains.ParseRunID(r.ID)
	if err != nil {
		return nil, err
	}
	if err := s.chains.Cancel(ctx, actorOf(ctx), id); err != nil {
		return nil, err
	}
	out, err := s.chainRun(ctx, r.ID)
	return api.CancelChainRun202JSONResponse(out), err
}

func (s *Server) chainRun(ctx context.Context, text string) (out api.ChainRun, err error) {
	id, err := chains.ParseRunID(text)
	if err != nil {
		return out, err
	}
	run, steps, err := s.chains.Run(ctx, principalOf(ctx).TenantID, id)
	if err != nil {
		return out, err
	}
	return chainRunAnswer(run, steps)
}

// converted returns a value in another type with the same JSON.
func converted[T any](from any) (to T, err error) {
	raw, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(raw, &to)
	}
	if err != nil {
		return to, fmt.Errorf("converting a %T: %w", from, err)
	}
	return to, nil
}

// chainSpec returns a definition without its name and secrets.
func chainSpec(d chains.Definition) (api.ChainSpec, error) {
	type nameless struct { // Its own name hides that of the definition.
		chains.Definition

		Name *string `json:"name,omitempty"`
	}
	return converted[api.ChainSpec](nameless{Definition: d.Shown()})
}

func chainAnswer(c chains.Chain) (api.Chain, error) {
	definition, err := chainSpec(c.Definition)
	return api.Chain{
		Name:       c.Name,
		Version:    c.Version,
		Definition: definition,
		CreatedAt:  c.CreatedAt.UTC(),
		UpdatedAt:  c.UpdatedAt.UTC(),
	}, err
}

// chainRunAnswer returns a run. Without steps it is that of a list, which has no definition either.
func chainRunAnswer(r chains.Record, steps []chains.StepRecord) (out api.ChainRun, err error) {
	out = api.ChainRun{
		ID:                r.ID.String(),
		Chain:             r.Chain,
		Version:           r.Version,
		Status:            string(r.Status),
		Reason:            optional(r.Reason),
		IdempotencyKey:    optional(r.Key),
		RequestedBy:       r.RequestedBy,
		CreatedAt:         r.CreatedAt.UTC(),
		DeadlineAt:        shown(r.Deadline),
		CancelRequestedAt: shown(r.CancelRequestedAt),
		EndedAt:           shown(r.EndedAt),
		RetryAt:           shown(r.RetryAt),
	}
	if r.Failures > 0 {
		out.AdvanceFailures = new(int32(r.Failures))
	}
	if out.Input, err = converted[map[string]any](r.Input); err != nil {
		return out, err
	}
	if r.Output != nil {
		if out.Output, err = converted[*map[string]any](r.Output); err != nil {
			return out, err
		}
	}
	if steps == nil {
		return out, nil
	}
	definition, err := chainSpec(r.Definition)
	if err != nil {
		return out, err
	}
	out.Definition = &definition
	list := make([]api.ChainRunStep, len(steps))
	for i, step := range steps {
		if list[i], err = chainStepAnswer(step); err != nil {
			return out, err
		}
	}
	out.Steps = &list
	return out, nil
}

func chainStepAnswer(s chains.StepRecord) (out api.ChainRunStep, err error) {
	out = api.ChainRunStep{
		Name:              s.Name,
		Status:            string(s.Status),
		Reason:            optional(s.Reason),
		Error:             optional(s.Error),
		StartedAt:         shown(s.StartedAt),
		EndedAt:           shown(s.EndedAt),
		Compensation:      optional(string(s.Undo)),
		CompensationError: optional(s.UndoError),
	}
	if s.Index != chains.Whole {
		out.Element = new(int32(s.Index))
	}
	if len(s.Elements) > 0 {
		out.Elements = &map[string]int32{}
		for status, number := range s.Elements {
			(*out.Elements)[string(status)] = int32(number)
		}
	}
	if s.RunID != [16]byte{} {
		out.RunID = new(runs.ID(s.RunID).String())
	}
	if s.UndoRunID != [16]byte{} {
		out.CompensationRunID = new(runs.ID(s.UndoRunID).String())
	}
	if s.Output != nil {
		if out.Output, err = converted[*map[string]any](s.Output); err != nil {
			return out, err
		}
	}
	if s.Item != nil {
		out.Item, err = converted[any](s.Item)
	}
	return out, err
}
