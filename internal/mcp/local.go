package mcp

import (
	"bytes"
	"io"
	"net/http"
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
	w := &recorder{header: http.Header{}}
	l.handler.ServeHTTP(w, r)
	return &http.Response{StatusCode: max(w.status, http.StatusOK), Header: w.header, Body: io.NopCloser(&w.body), Request: r}, nil
}

// recorder keeps an answer.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (w *recorder) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

// Write implements http.ResponseWriter.
func (w *recorder) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}
