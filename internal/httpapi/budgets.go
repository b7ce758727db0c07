package httpapi

import (
	"context"
	"net/url"

	"rubato/internal/httpapi/api"
	"rubato/internal/spending"
)

// PutBudget stores a shared budget, or changes its number of runs.
func (s *Server) PutBudget(ctx context.Context, r api.PutBudgetRequestObject) (api.PutBudgetResponseObject, error) {
	if in := inputOf(ctx); in.bad() {
		return nil, in.refuse(spending.Check(r.Name, r.Body.Budget))
	}
	stored, created, err := s.budgets.Put(ctx, actorOf(ctx), r.Name, r.Body.Budget)
	if err != nil {
		return nil, err
	}
	if created {
		return api.PutBudget201JSONResponse{
			Body: budgetAnswer(stored), Headers: api.PutBudget201ResponseHeaders{Location: "/v1/budgets/" + url.PathEscape(stored.Name)},
		}, nil
	}
	return api.PutBudget200JSONResponse(budgetAnswer(stored)), nil
}

// ListBudgets returns a page of shared budgets.
func (s *Server) ListBudgets(ctx context.Context, r api.ListBudgetsRequestObject) (api.ListBudgetsResponseObject, error) {
	digest := filterDigest("budgets", principalOf(ctx).TenantID)
	after, err := resumeName(r.Params.Cursor, digest, spending.ValidName)
	if err != nil {
		return nil, err
	}
	limit := limitOf(r.Params.Limit) + 1
	found, err := s.budgets.List(ctx, actorOf(ctx), after, limit)
	if err != nil {
		return nil, err
	}
	out := api.BudgetList{Items: []api.Budget{}}
	found, more := page(found, limit)
	for _, b := range found {
		out.Items = append(out.Items, budgetAnswer(b))
	}
	if more {
		out.NextCursor = new(nameCursor(found[len(found)-1].Name, digest))
	}
	return api.ListBudgets200JSONResponse(out), nil
}

// GetBudget returns a shared budget.
func (s *Server) GetBudget(ctx context.Context, r api.GetBudgetRequestObject) (api.GetBudgetResponseObject, error) {
	found, err := s.budgets.Get(ctx, actorOf(ctx), r.Name)
	if err != nil {
		return nil, err
	}
	return api.GetBudget200JSONResponse(budgetAnswer(found)), nil
}

// DeleteBudget deletes a shared budget.
func (s *Server) DeleteBudget(ctx context.Context, r api.DeleteBudgetRequestObject) (api.DeleteBudgetResponseObject, error) {
	if err := s.budgets.Delete(ctx, actorOf(ctx), r.Name); err != nil {
		return nil, err
	}
	return api.DeleteBudget204Response{}, nil
}

func budgetAnswer(b spending.Budget) api.Budget {
	return api.Budget{
		Name:      b.Name,
		Budget:    b.Text,
		Price:     b.Price,
		CreatedAt: b.CreatedAt.UTC(),
		UpdatedAt: b.UpdatedAt.UTC(),
	}
}
