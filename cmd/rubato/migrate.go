package main

import (
	"context"
	"errors"
	"strconv"

	"rubato/internal/app"
	"rubato/internal/config"
)

// migrateCmd is `rubato migrate`.
type migrateCmd struct {
	Up     migrateUpCmd     `cmd:"" help:"Apply all pending migrations."`
	Down   migrateDownCmd   `cmd:"" help:"Revert the newest migration. Data in tables or columns that it added is lost."`
	Status migrateStatusCmd `cmd:"" help:"Print every migration and when it was applied."`
}

type (
	migrateUpCmd   struct{}
	migrateDownCmd struct {
		Yes bool `short:"y" help:"Do not ask for confirmation."`
	}
	migrateStatusCmd struct{}
)

// Run applies pending migrations. It prints the applied ones even if a later one fails.
func (*migrateUpCmd) Run(ctx context.Context, s *session) error {
	settings, err := s.databaseSettings()
	if err != nil {
		return err
	}
	applied, err := app.MigrateUp(ctx, settings)
	if err != nil && len(applied) == 0 {
		return err
	}
	return errors.Join(err, s.steps("applied", applied)) // Each applied migration is committed.
}

// Run reverts the newest migration. Without --yes it asks for confirmation first.
func (cmd *migrateDownCmd) Run(ctx context.Context, s *session) error {
	if !cmd.Yes && !s.askable() {
		return usageError{"standard input is not a terminal, so the loss of data cannot be confirmed: add --yes"}
	}
	settings, err := s.databaseSettings()
	if err != nil {
		return err
	}
	if !cmd.Yes {
		newest, err := newestMigration(ctx, settings)
		if err != nil {
			return err
		}
		if newest == "" {
			return s.steps("undone", nil)
		}
		if err := s.confirm(ctx, "Revert "+newest+"? Data in tables or columns that it added is lost."); err != nil {
			return err
		}
	}
	undone, err := app.MigrateDown(ctx, settings)
	switch {
	case err != nil:
		return err
	case undone == "":
		return s.steps("undone", nil)
	default:
		return s.steps("undone", []string{undone})
	}
}

// newestMigration returns the name of the newest applied migration; empty: none is applied.
func newestMigration(ctx context.Context, settings config.Config) (name string, err error) {
	list, err := app.MigrateStatus(ctx, settings)
	for _, m := range list { // By version.
		if !m.AppliedAt.IsZero() {
			name = m.Name
		}
	}
	return name, err
}

// Run prints every migration and its time of application.
func (*migrateStatusCmd) Run(ctx context.Context, s *session) error {
	settings, err := s.databaseSettings()
	if err != nil {
		return err
	}
	list, err := app.MigrateStatus(ctx, settings)
	if err != nil {
		return err
	}
	if s.json {
		return s.print(map[string]any{"items": list})
	}
	rows := make([][]string, 0, len(list))
	for _, m := range list {
		applied := "pending"
		if !m.AppliedAt.IsZero() {
			applied = instant(&m.AppliedAt)
		}
		rows = append(rows, []string{strconv.FormatInt(m.Version, 10), m.Name, applied})
	}
	return s.table([]string{"VERSION", "NAME", "APPLIED"}, rows)
}

func (s *session) databaseSettings() (config.Config, error) {
	return s.settings(config.Program{Required: []string{config.DatabaseURL}})
}

// steps prints the names of the migrations that were applied or undone.
func (s *session) steps(what string, names []string) error {
	if s.json {
		return s.print(map[string]any{what: append([]string{}, names...)})
	}
	if len(names) == 0 {
		return s.say("nothing to do")
	}
	for _, name := range names {
		if err := s.say("%s %s", what, name); err != nil {
			return err
		}
	}
	return nil
}
