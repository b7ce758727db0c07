// Command planner analyses how endpoints of Rubato behave and proposes another tempo for them, within the bounds of their users. Any number
// of them may work on one database; its environment configures it, see --help.
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
