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
	"rubato/internal/store"
	"rubato/internal/telemetry"
)

// plannerConns bounds the connections of a planner: one for each analysis, and one to look for the next.
const plannerConns = 6

// Planner is the planner: it analyses endpoints and proposes another tempo for them.
type Planner struct {
	Settings config.Config
	Logger   *slog.Logger
	Started  func(Addresses) // called when it begins to look; nil: nobody asks
}

// Run analyses until ctx ends, then lets what is under way end within the shutdown grace.
func (p Planner) Run(ctx context.Context) error {
	c, err := openCore(ctx, p.Settings, p.Logger, plannerConns)
	if err != nil {
		return err
	}
	defer c.close(ctx)
	work, err := c.planner()
	if err != nil {
		return err
	}
	health := telemetry.NewHealth(p.Logger, work.Checks()...)
	admin, err := c.admin(ctx, health)
	if err != nil {
		return err
	}
	tell(p.Started, addressesOf(nil, admin))
	p.Logger.Info("the planner works", "slots", p.Settings.Planner.Slots, "version", telemetry.Version())
	return serveWhile(ctx, admin, health, func(ctx context.Context) error {
		work.Run(ctx)
		return nil
	})
}

// planner returns the planner over the database, with the advisor that the settings name.
func (c *core) planner() (*planner.Planner, error) {
	s := c.settings.Planner
	advisor, err := c.advisor()
	if err != nil {
		return nil, err
	}
	rails := planner.DefaultRails()
	rails.Dwell, rails.ChangesPerHour, rails.PerHour, rails.MinAgain = s.Dwell, s.ChangesPerHour, s.AnalysesPerHour, s.Spacing
	return planner.New(planner.Config{
		Advisor:    advisor,
		Queue:      store.NewPlannerQueue(c.db, [16]byte(uuid.New()), planner.LockFor(s.Timeout)),
		Evidence:   store.NewPlannerEvidence(c.db),
		Rails:      rails,
		Slots:      s.Slots,
		Poll:       s.Poll,
		Timeout:    s.Timeout,
		Grace:      c.settings.Worker.ShutdownGrace,
		Retention:  c.settings.Worker.RunRetention,
		Logger:     c.logger,
		Registerer: c.registry,
	}), nil
}

// advisor returns who advises the planner: the model that the settings name, else the rules that need nothing.
func (c *core) advisor() (planner.Advisor, error) {
	m := c.settings.Model
	if m.Name == "" {
		return heuristic.New(), nil
	}
	advisor, err := openai.New(openai.Config{
		BaseURL: m.BaseURL, Key: m.Key, Model: m.Name, Temperature: m.Temperature, ReasoningEffort: m.ReasoningEffort,
		SessionTokens: m.SessionTokens, CompletionTokens: m.AnswerTokens, Timeout: c.settings.Planner.Timeout,
		PromptPrice: m.PromptPrice, CompletionPrice: m.CompletionPrice,
	}, store.NewPlannerBudget(c.db, c.plannerLimits()), c.registry)
	if err != nil {
		return nil, fmt.Errorf("making ready to ask the model: %w", err)
	}
	return advisor, nil
}

// plannerLimits returns what models may cost in a day.
func (c *core) plannerLimits() store.PlannerLimits {
	s := c.settings.Planner
	return store.PlannerLimits{Installation: s.Tokens, Tenant: s.TenantTokens, Endpoint: s.EndpointTokens}
}
