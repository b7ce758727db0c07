package mcp

import (
	"io"
	"net/http"

	"rubato/internal/answers"
)

// local calls the API in this process as the caller in the request's context.
type local struct{ handler http.Handler }

// Do implements [Doer].
func (l local) Do(r *http.Request) (*http.Response, error) {
	asked := callerOf(r.Context())
	r.Host, r.RequestURI, r.RemoteAddr = "localhost", r.URL.RequestURI(), asked.remote
	for _, name := range []string{"Authorization", "X-Forwarded-For", "Forwarded", "Traceparent", "User-Agent"} {
		if values := asked.header.Values(name); len(values) > 0 {
			r.Header[name] = values
		}
	}
	var answer answers.Recorder
	l.handler.ServeHTTP(&answer, r)
	return &http.Response{
		StatusCode: answer.Status(),
		Header:     answer.Header(),
		Body:       io.NopCloser(&answer.Body),
		Request:    r,
	}, nil
}
