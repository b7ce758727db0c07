// Command scheduler-worker runs due endpoints. Any number of workers may share one database. The
// environment configures it; see --help.
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
		Name: "scheduler-worker",
		Doc:  "runs endpoints when they are due, until the first interrupt or termination signal; then it drains",
		Run: func(ctx context.Context, settings config.Config, logger *slog.Logger) error {
			return app.Worker{Settings: settings, Logger: logger}.Run(ctx)
		},
	}.Main(ctx, os.Args[1:], os.Environ(), os.Stderr)
	stop()
	os.Exit(code)
}
