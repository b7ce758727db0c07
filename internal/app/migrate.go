package app

import (
	"context"
	"fmt"
	"time"

	"rubato/internal/config"
	"rubato/internal/store"
)

// Migration is one step of the schema.
type Migration struct {
	Version   int64     `json:"version"`
	Name      string    `json:"name"`
	AppliedAt time.Time `json:"appliedAt,omitzero"` // zero: pending
}

// MigrateUp brings the schema to the newest version and returns the names of the steps that it took, also where it then failed.
func MigrateUp(ctx context.Context, settings config.Config) ([]string, error) {
	applied, err := store.MigrateUp(ctx, settings.Database.DirectURL)
	if err != nil {
		err = fmt.Errorf("migrating up: %w", err)
	}
	return applied, err
}

// MigrateDown takes back the newest step and returns its name, empty where there is none. Data that only it can hold is lost.
func MigrateDown(ctx context.Context, settings config.Config) (string, error) {
	name, err := store.MigrateDown(ctx, settings.Database.DirectURL)
	if err != nil {
		return "", fmt.Errorf("migrating down: %w", err)
	}
	return name, nil
}

// MigrateStatus returns every step of the schema, oldest first.
func MigrateStatus(ctx context.Context, settings config.Config) ([]Migration, error) {
	list, err := store.MigrateStatus(ctx, settings.Database.DirectURL)
	if err != nil {
		return nil, fmt.Errorf("reading which migrations are applied: %w", err)
	}
	steps := make([]Migration, 0, len(list))
	for _, m := range list {
		steps = append(steps, Migration{Version: m.Version, Name: m.Name, AppliedAt: m.AppliedAt})
	}
	return steps, nil
}
