// Command api is the API server of Rubato. Its environment configures it; see --help.
package main

import (
	"context"
	"log/slog"
	"os"

	"rubato/internal/app"
	"rubato/internal/app/apiserver"
	"rubato/internal/config"
)

func main() {
	ctx, stop := app.WithSignals(context.Background())
	code := app.Daemon{
		Name: "api",
		Doc:  "serves the REST API, until the first interrupt or termination signal",
		Run: func(ctx context.Context, settings config.Config, logger *slog.Logger) error {
			return apiserver.API{Settings: settings, Logger: logger}.Run(ctx)
		},
	}.Main(ctx, os.Args[1:], os.Environ(), os.Stderr)
	stop()
	os.Exit(code)
}
