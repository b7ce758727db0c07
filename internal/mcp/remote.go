package mcp

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Remote is the API of a server elsewhere, asked with one key.
type Remote struct {
	URL    string // base URL
	Key    string
	Client *http.Client
}

// Do implements [Doer].
func (s Remote) Do(r *http.Request) (*http.Response, error) {
	target, err := url.Parse(strings.TrimRight(s.URL, "/") + r.URL.RequestURI())
	if err != nil {
		return nil, fmt.Errorf("addressing the server: %w", err)
	}
	r.URL, r.Host = target, target.Host
	r.Header.Set("Authorization", "Bearer "+s.Key)
	return s.Client.Do(r)
}

// Serve serves one agent over a pipe until it hangs up or ctx ends. Tools that change something are
// left out where readOnly is set; which of the others the key allows, the server says when they are
// called.
func (s Remote) Serve(ctx context.Context, p Pipe, version string, readOnly bool) error {
	server := newServer(version, s, func(t tool) bool { return !readOnly || t.described.Annotations.ReadOnlyHint })
	return server.Run(ctx, p)
}
