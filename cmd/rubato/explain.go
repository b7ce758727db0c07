package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"rubato/client"
	"rubato/internal/app"
	"rubato/internal/app/apiserver"
)

// explainCmd is `rubato explain`.
type explainCmd struct {
	Remote bool `help:"Use the server's API instead of computing offline."`
}

// Help describes the format of a line.
func (*explainCmd) Help() string {
	return `Example: echo '{"baselineIntervalMs": 60000, "anchor": "2026-03-01T12:00:00Z", "now": "2026-03-01T12:00:01Z", "failureCount": 3}' | rubato explain
A line that is refused is answered by {"error": {...}, "line": n}, and the exit code is 1 at the end.`
}

// Run writes one answer per input line until the end of the input.
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
	return apiserver.Explain(s.stdin, s.stdout, func() time.Time { return time.Now().UTC().Truncate(time.Millisecond) })
}

// explainRemotely sends each line to POST /v1/explain instead of computing offline.
func (s *session) explainRemotely(ctx context.Context) (refused int, err error) {
	r, err := s.connect()
	if err != nil {
		return 0, err
	}
	lines := newLines(s.stdin)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		answer, err := r.read(r.api.ExplainWithBodyWithResponse(ctx, "application/json", bytes.NewReader(lines.Bytes())))
		// Only an error of the line is its answer, because others, e.g. an invalid key, would
		// repeat for every line.
		if problem, is := errors.AsType[*client.Problem](err); is && exitCodeOf(problem) == app.ExitUsage {
			refused++
			answer, err = json.Marshal(map[string]any{"error": problem, "line": n})
		}
		if err != nil {
			return refused, err
		}
		if err := s.printLine(answer); err != nil {
			return refused, err
		}
	}
	if err := lines.Err(); err != nil {
		return refused, fmt.Errorf("reading the input: %w", err)
	}
	return refused, nil
}
