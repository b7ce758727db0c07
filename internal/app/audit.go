package app

import (
	"context"
	"fmt"
	"io"
	"time"

	"rubato/internal/audit"
	"rubato/internal/config"
)

// Audit is a check of what Rubato guarantees against the history of a database. It only reads.
type Audit struct {
	Settings config.Config
	Window   time.Duration // how far back it reads
	JSON     bool          // write the whole report as JSON; else its card as Markdown
}

// Run writes the report and returns how many breaches it found.
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
