// Package inprocess asks an HTTP handler without a network between.
package inprocess

import (
	"bytes"
	"net/http"
)

// Answer keeps what a handler answers. The zero value is ready.
type Answer struct {
	Body bytes.Buffer

	header http.Header
	status int
}

var (
	_ http.ResponseWriter = (*Answer)(nil)
	_ http.Flusher        = (*Answer)(nil)
)

// Header implements http.ResponseWriter.
func (a *Answer) Header() http.Header {
	if a.header == nil {
		a.header = http.Header{}
	}
	return a.header
}

// WriteHeader implements http.ResponseWriter.
func (a *Answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// Write implements http.ResponseWriter.
func (a *Answer) Write(part []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.Body.Write(part)
}

// Flush implements http.Flusher: streams that end by themselves are read as a whole.
func (a *Answer) Flush() {}

// Status returns the status of the answer: 200 where the handler said nothing.
func (a *Answer) Status() int {
	if a.status == 0 {
		return http.StatusOK
	}
	return a.status
}
