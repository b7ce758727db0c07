package main

import (
	"context"
	"io"
	"net/http"

	"rubato/client"
)

// streams returns a client without a timeout, because exports and event streams may last longer
// than callTimeout.
func (r *remote) streams() (*client.ClientWithResponses, error) {
	api, err := client.New(r.url, r.key, client.WithHTTPClient(direct(0)), client.WithRequestEditorFn(introduce))
	if err != nil {
		return nil, usageError{err.Error()}
	}
	return api, nil
}

// stream returns the body of a streaming response; the caller closes it. A response other than a
// success is a [*client.Problem].
func (r *remote) stream(response *http.Response, err error) (io.ReadCloser, error) {
	if err != nil {
		return nil, r.unreachable(err)
	}
	if response.StatusCode < http.StatusMultipleChoices {
		return response.Body, nil
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, r.unreachable(err)
	}
	return nil, refused(response, text)
}

// importLines sends lines to the import and returns the streaming response; the caller closes it.
func (r *remote) importLines(ctx context.Context, lines io.Reader, from int32, dryRun bool) (io.ReadCloser, error) {
	api, err := r.streams()
	if err != nil {
		return nil, err
	}
	params := &client.ImportEndpointsParams{}
	if from > 1 {
		params.From = &from
	}
	if dryRun {
		params.DryRun = new(client.ImportEndpointsParamsDryRunTrue)
	}
	return r.stream(api.ImportEndpointsWithBody(ctx, params, "application/x-ndjson", lines))
}
