package main

import (
	"time"

	"rubato/internal/app"
)

// explainCmd is `rubato explain`.
type explainCmd struct{}

// Help tells what a line looks like.
func (*explainCmd) Help() string {
	return `Example: echo '{"baselineIntervalMs": 60000, "anchor": "2026-03-01T12:00:00Z", "now": "2026-03-01T12:00:01Z", "failureCount": 3}' | rubato explain
A line that is refused is answered by {"error": {...}, "line": n}, and the exit code is 1 at the end.`
}

// Run answers line by line until the input ends.
func (*explainCmd) Run(s *session) error {
	refused, err := app.Explain(s.stdin, s.stdout, func() time.Time { return time.Now().UTC().Truncate(time.Millisecond) })
	if err != nil {
		return err
	}
	if refused > 0 {
		return silentError{}
	}
	return nil
}
