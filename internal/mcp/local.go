package mcp

import (
	"io"
	"net/http"

	"rubato/internal/inprocess"
)

// local is the API in this process, asked in the name of a caller.
type local struct {
	handler http.Handler
	caller  caller
}

// Do implements [Doer].
func (l local) Do(r *http.Request) (*http.Response, error) {
	r.Host, r.RequestURI, r.RemoteAddr = "localhost", r.URL.RequestURI(), l.caller.remote
	for _, name := range []string{"Authorization", "X-Forwarded-For", "Forwarded", "Traceparent", "User-Agent"} {
		if values := l.caller.header.Values(name); len(values) > 0 {
			r.Header[name] = values
		}
	}
	var answer inprocess.Answer
	l.handler.ServeHTTP(&answer, r)
	return &http.Response{StatusCode: answer.Status(), Header: answer.Header(), Body: io.NopCloser(&answer.Body), Request: r}, nil
}
