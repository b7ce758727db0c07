package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"rubato/internal/config"
	"rubato/internal/endpoints"
	"rubato/internal/replay"
)

// Replay makes the recorded decisions of a database again and compares them. It only reads.
type Replay struct {
	Settings config.Config
	// From and To bound the decisions; a zero To means no end.
	From, To time.Time
	// Endpoint limits the replay to one endpoint, by ID; empty: every endpoint.
	Endpoint string
	// JSON selects the whole report as JSON instead of a summary.
	JSON bool
}

// Run writes the report and reports whether every decision is as recorded.
func (r Replay) Run(ctx context.Context, to io.Writer) (same bool, err error) {
	options := replay.Options{From: r.From, To: r.To}
	if r.Endpoint != "" {
		if options.Endpoint, err = endpoints.ParseID(r.Endpoint); err != nil {
			return false, err
		}
	}
	report, err := replay.Run(ctx, r.Settings.Database.DirectURL, options)
	if err != nil {
		return false, fmt.Errorf("replaying the decisions since %s: %w", r.From.Format(time.RFC3339), err)
	}
	if r.JSON {
		e := json.NewEncoder(to)
		e.SetIndent("", "  ")
		err = e.Encode(report)
	} else {
		err = report.WriteText(to)
	}
	if err != nil {
		return false, fmt.Errorf("writing the report of the replay: %w", err)
	}
	return report.Difference == nil, nil
}
