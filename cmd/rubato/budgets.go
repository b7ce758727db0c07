package main

import (
	"context"
	"strconv"

	"rubato/client"
)

// budgetsCmd is `rubato budgets`.
type budgetsCmd struct {
	Set    budgetsSetCmd    `cmd:"" help:"Store a budget of runs that endpoints share, or change its number of runs."`
	Get    budgetsGetCmd    `cmd:"" help:"Print one shared budget with its present price."`
	List   budgetsListCmd   `cmd:"" help:"Print shared budgets, sorted by name."`
	Delete budgetsDeleteCmd `cmd:"" help:"Delete a shared budget."`
}

type (
	budgetsSetCmd struct {
		serverFlag

		Name   string `arg:"" help:"Name: tenant, host:shop.example.com or label:team=shop."`
		Budget string `arg:"" help:"Number of runs per s, m, h or d, such as 600/h."`
	}
	budgetsGetCmd struct {
		serverFlag

		Name string `arg:"" help:"Name."`
	}
	budgetsListCmd struct {
		serverFlag

		Limit  int32  `default:"50" help:"Maximum number of results."`
		Cursor string `help:"Cursor of the next page, from the previous list."`
	}
	budgetsDeleteCmd struct {
		serverFlag

		Name string `arg:"" help:"Name."`
	}
)

// Run stores a budget or changes its number of runs.
func (cmd *budgetsSetCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.PutBudgetWithResponse(ctx, cmd.Name, client.BudgetSpec{Budget: cmd.Budget}))
	if err != nil {
		return err
	}
	return show(s, raw, func(b client.Budget) error {
		return s.say("budget %s is %s; workers follow within ten seconds", b.Name, b.Budget)
	})
}

// Run prints a budget.
func (cmd *budgetsGetCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.GetBudgetWithResponse(ctx, cmd.Name))
	if err != nil {
		return err
	}
	return show(s, raw, func(b client.Budget) error {
		return s.facts([][2]string{
			{"name", b.Name},
			{"budget", b.Budget},
			{"price of a run", price(b) + " change-seconds"},
			{"created", instant(&b.CreatedAt)},
			{"updated", instant(&b.UpdatedAt)},
		})
	})
}

func price(b client.Budget) string { return strconv.FormatFloat(b.Price, 'g', 3, 64) }

// Run lists budgets.
func (cmd *budgetsListCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.ListBudgetsWithResponse(ctx, &client.ListBudgetsParams{Limit: &cmd.Limit, Cursor: given(cmd.Cursor)}))
	if err != nil {
		return err
	}
	return list(s, raw, []string{"NAME", "BUDGET", "PRICE", "UPDATED"}, func(b client.Budget) []string {
		return []string{b.Name, b.Budget, price(b), instant(&b.UpdatedAt)}
	})
}

// Run deletes a budget.
func (cmd *budgetsDeleteCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	if _, err := r.read(r.api.DeleteBudgetWithResponse(ctx, cmd.Name)); err != nil {
		return err
	}
	return s.deleted(cmd.Name)
}
