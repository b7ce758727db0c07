package apiserver

import (
	"context"
	"io"
	"net/http"

	"rubato/internal/mcp"
	"rubato/internal/telemetry"
)

// Agent connects an AI agent on standard input and output to the MCP endpoint of a server.
type Agent struct {
	// URL is the base URL of the server; Key is an API key.
	URL, Key string
	Client   *http.Client
	In       io.ReadCloser
	Out      io.WriteCloser
	// ReadOnly offers only tools that change nothing.
	ReadOnly bool
}

// Serve forwards the agent's calls until it closes its input or ctx ends.
func (a Agent) Serve(ctx context.Context) error {
	return mcp.Remote{
		URL:    a.URL,
		Key:    a.Key,
		Client: a.Client,
	}.Serve(ctx, mcp.Pipe{In: a.In, Out: a.Out}, telemetry.Version(), a.ReadOnly)
}
