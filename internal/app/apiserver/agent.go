package apiserver

import (
	"context"
	"io"
	"net/http"

	"rubato/internal/mcp"
	"rubato/internal/telemetry"
)

// Agent is an agent that talks to a server through this process, over standard input and output.
type Agent struct {
	URL, Key string // of the server
	Client   *http.Client
	In       io.ReadCloser
	Out      io.WriteCloser
	ReadOnly bool // offer nothing that changes anything
}

// Serve passes the agent's calls on until it hangs up or ctx ends.
func (a Agent) Serve(ctx context.Context) error {
	return mcp.Remote{URL: a.URL, Key: a.Key, Client: a.Client}.Serve(ctx, mcp.Pipe{In: a.In, Out: a.Out}, telemetry.Version(), a.ReadOnly)
}
