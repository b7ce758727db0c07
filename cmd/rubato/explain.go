package main

import (
	"context"
	"time"

	"rubato/internal/app"
)

// explainCmd is `rubato explain`.
type explainCmd struct {
	Remote bool `help:"Let the server decide, not this program."`
}

// Help tells what a line looks like.
func (*explainCmd) Help() string {
	return `Example: echo '{"baselineIntervalMs": 60000, "anchor": "2026-03-01T12:00:00Z", "now": "2026-03-01T12:00:01Z", "failureCount": 3}' | rubato explain
A line that is refused is answered by {"error": {...}, "line": n}, and the exit code is 1 at the end.`
}

// Run answers line by line until the input ends.
func (cmd *explainCmd) Run(ctx context.Context, s *session) error {
	refused, err := cmd.explain(ctx, s)
	if err != nil {
		return err
	}
	if refused > 0 {
		return silentError{}
	}
	return nil
}

func (cmd *explainCmd) explain(ctx context.Context, s *session) (refused int, err error) {
	if cmd.Remote {
		return s.explainRemotely(ctx)
	}
	return app.Explain(s.stdin, s.stdout, func() time.Time { return time.Now().UTC().Truncate(time.Millisecond) })
}
