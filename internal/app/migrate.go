package app

import (
	"context"
	"fmt"
	"time"

	"rubato/internal/config"
	"rubato/internal/store/pg"
)

// Migration is one step of the schema's history.
type Migration struct {
	Version int64  `json:"version"`
	Name    string `json:"name"`
	// AppliedAt is zero for a pending migration.
	AppliedAt time.Time `json:"appliedAt,omitzero"`
}

// MigrateUp applies all pending migrations. It returns the names of the applied ones, also if a
// later one failed.
func MigrateUp(ctx context.Context, settings config.Config) ([]string, error) {
	applied, err := pg.MigrateUp(ctx, settings.Database.DirectURL)
	if err != nil {
		err = fmt.Errorf("migrating up: %w", err)
	}
	return applied, err
}

// MigrateDown reverts the newest migration and returns its name, or "" if none is applied. Data in
// tables or columns that the migration added is lost.
func MigrateDown(ctx context.Context, settings config.Config) (string, error) {
	name, err := pg.MigrateDown(ctx, settings.Database.DirectURL)
	if err != nil {
		return "", fmt.Errorf("migrating down: %w", err)
	}
	return name, nil
}

// MigrateStatus returns every migration, oldest first.
func MigrateStatus(ctx context.Context, settings config.Config) ([]Migration, error) {
	list, err := pg.MigrateStatus(ctx, settings.Database.DirectURL)
	if err != nil {
		return nil, fmt.Errorf("reading the applied migrations: %w", err)
	}
	steps := make([]Migration, 0, len(list))
	for _, m := range list {
		steps = append(steps, Migration{
			Version:   m.Version,
			Name:      m.Name,
			AppliedAt: m.AppliedAt,
		})
	}
	return steps, nil
}
