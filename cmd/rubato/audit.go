package main

import (
	"context"
	"fmt"
	"time"

	"rubato/internal/app"
)

// auditCmd is `rubato audit`.
type auditCmd struct {
	Window time.Duration `default:"24h" help:"Span of the history to check."`
}

// Run audits the database in DATABASE_URL. It returns an error if it finds breaches.
func (cmd *auditCmd) Run(ctx context.Context, s *session) error {
	settings, err := s.databaseSettings()
	if err != nil {
		return err
	}
	breaches, err := app.Audit{
		Settings: settings,
		Window:   cmd.Window,
		JSON:     s.json,
	}.Run(ctx, s.stdout)
	if err != nil {
		return err
	}
	if breaches > 0 {
		return fmt.Errorf("the history has %d breaches of guarantees", breaches)
	}
	return nil
}
