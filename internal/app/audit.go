package app

import (
	"context"
	"fmt"
	"io"
	"time"

	"rubato/internal/audit"
	"rubato/internal/config"
)

// Audit checks Rubato's guarantees against the run history of a database. It only reads.
type Audit struct {
	Settings config.Config
	// Window is the span of history that is checked, ending now.
	Window time.Duration
	// JSON selects the whole report as JSON instead of a summary as Markdown.
	JSON bool
}

// Run writes the report and returns the number of breaches.
func (a Audit) Run(ctx context.Context, to io.Writer) (breaches int, err error) {
	report, err := audit.Run(ctx, a.Settings.Database.DirectURL, audit.Options{
		Window: a.Window, LockTTL: a.Settings.Worker.LockTTL,
	})
	if err != nil {
		return 0, fmt.Errorf("auditing the last %s: %w", a.Window, err)
	}
	write := report.WriteCard
	if a.JSON {
		write = report.WriteJSON
	}
	if err := write(to); err != nil {
		return 0, fmt.Errorf("writing the report of the audit: %w", err)
	}
	return report.Breaches(), nil
}
