package answers

import (
	"bytes"
	"net/http"
)

// Recorder records the answer of a handler that is called without a network. The zero value is
// ready to use.
type Recorder struct {
	Body bytes.Buffer

	header http.Header
	status int
}

var (
	_ http.ResponseWriter = (*Recorder)(nil)
	_ http.Flusher        = (*Recorder)(nil)
)

// Header implements http.ResponseWriter.
func (a *Recorder) Header() http.Header {
	if a.header == nil {
		a.header = http.Header{}
	}
	return a.header
}

// WriteHeader implements http.ResponseWriter.
func (a *Recorder) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// Write implements http.ResponseWriter.
func (a *Recorder) Write(part []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.Body.Write(part)
}

// Flush implements http.Flusher. It does nothing, because a recorded stream is read as a whole.
func (a *Recorder) Flush() {}

// Status returns the status of the answer; 200 if the handler set none.
func (a *Recorder) Status() int {
	if a.status == 0 {
		return http.StatusOK
	}
	return a.status
}
