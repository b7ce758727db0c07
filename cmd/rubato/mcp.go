package main

import (
	"context"
	"io"

	"rubato/internal/app"
	"rubato/internal/app/apiserver"
)

// mcpCmd is `rubato mcp`.
type mcpCmd struct {
	serverFlag

	ReadOnly bool `help:"Offer only read-only tools."`
}

// Run serves an agent on standard input and output until the end of the input.
func (cmd *mcpCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	return app.Interrupted(ctx, apiserver.Agent{
		URL:      r.url,
		Key:      r.key,
		Client:   direct(callTimeout),
		In:       io.NopCloser(s.stdin),
		Out:      unclosed{s.stdout},
		ReadOnly: cmd.ReadOnly,
	}.Serve(ctx))
}

// unclosed is a writer that the transport must not close, because the session still writes to it.
type unclosed struct{ io.Writer }

// Close does nothing.
func (unclosed) Close() error { return nil }
