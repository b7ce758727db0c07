package app

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/google/uuid"

	"rubato/internal/config"
	"rubato/internal/planner"
	"rubato/internal/planner/heuristic"
	"rubato/internal/planner/openai"
	plannerstore "rubato/internal/store/planner"
	"rubato/internal/telemetry"
)

// plannerConns bounds the connections of a planner: one per analysis, and one for the queue.
const plannerConns = 6

// Planner is the program that analyses endpoints and proposes another tempo for them.
type Planner struct {
	Settings config.Config
	Logger   *slog.Logger
	// Started is called before the planner takes its first endpoint. It may be nil.
	Started func(Addresses)
}

// Run analyses until ctx ends, then waits at most the shutdown grace for analyses under way.
func (p Planner) Run(ctx context.Context) error {
	c, err := OpenCore(ctx, p.Settings, p.Logger, plannerConns)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	part, err := c.Planner()
	if err != nil {
		return err
	}
	return c.Run(ctx, p.Started, part)
}

// Planner returns the planner as a part, with the advisor that the settings name.
func (c *Core) Planner() (Part, error) {
	advisor, err := c.advisor()
	if err != nil {
		return Part{}, err
	}
	work := c.planner(advisor)
	return Part{Checks: work.Checks(), Run: func(ctx context.Context) error {
		c.Logger.Info("planner started", "slots", c.Settings.Planner.Slots, "version", telemetry.Version())
		work.Run(ctx)
		return nil
	}}, nil
}

// planner returns the planner on the core's database.
func (c *Core) planner(advisor planner.Advisor) *planner.Planner {
	s := c.Settings.Planner
	rails := planner.DefaultGuardrails()
	rails.Dwell, rails.ChangesPerHour, rails.AnalysesPerHour, rails.MinGap = s.Dwell, s.ChangesPerHour, s.AnalysesPerHour, s.Spacing
	return planner.New(planner.Config{
		Advisor:    advisor,
		Queue:      plannerstore.NewQueue(c.States, [16]byte(uuid.New()), planner.LockDuration(s.Timeout)),
		Evidence:   plannerstore.NewEvidence(c.States),
		Guardrails: rails,
		Slots:      s.Slots,
		Poll:       s.Poll,
		Timeout:    s.Timeout,
		Grace:      c.Settings.Worker.ShutdownGrace,
		Retention:  c.Settings.Worker.RunRetention,
		Logger:     c.Logger,
		Registerer: c.Registry,
	})
}

// advisor returns the configured language model, or the built-in heuristic if none is configured.
func (c *Core) advisor() (planner.Advisor, error) {
	m := c.Settings.Model
	if m.Name == "" {
		return heuristic.New(), nil
	}
	advisor, err := openai.New(openai.Config{
		BaseURL:          m.BaseURL,
		Key:              m.Key,
		Model:            m.Name,
		Temperature:      m.Temperature,
		ReasoningEffort:  m.ReasoningEffort,
		SessionTokens:    m.SessionTokens,
		CompletionTokens: m.AnswerTokens,
		Timeout:          c.Settings.Planner.Timeout,
		PromptPrice:      m.PromptPrice,
		CompletionPrice:  m.CompletionPrice,
	}, plannerstore.NewBudget(c.DB, c.PlannerLimits()), c.Registry)
	if err != nil {
		return nil, fmt.Errorf("configuring the model: %w", err)
	}
	return advisor, nil
}

// PlannerLimits returns the daily token budgets of models.
func (c *Core) PlannerLimits() plannerstore.Limits {
	s := c.Settings.Planner
	return plannerstore.Limits{
		Installation: s.Tokens,
		Tenant:       s.TenantTokens,
		Endpoint:     s.EndpointTokens,
	}
}
