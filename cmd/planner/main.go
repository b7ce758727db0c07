// Command planner analyses the behavior of endpoints and proposes other tempos within the bounds of
// their users. Any number of planners may share one database. The environment configures it; see
// --help.
package main

import (
	"context"
	"log/slog"
	"os"

	"rubato/internal/app"
	"rubato/internal/config"
)

func main() {
	ctx, stop := app.WithSignals(context.Background())
	code := app.Daemon{
		Name: "planner",
		Doc:  "proposes another tempo for endpoints by how they behave, until the first interrupt or termination signal; then it drains",
		Run: func(ctx context.Context, settings config.Config, logger *slog.Logger) error {
			return app.Planner{Settings: settings, Logger: logger}.Run(ctx)
		},
	}.Main(ctx, os.Args[1:], os.Environ(), os.Stderr)
	stop()
	os.Exit(code)
}
