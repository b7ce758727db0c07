package httpapi

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"rubato/internal/auth"
)

const (
	// streamWriteTimeout is the write timeout of a stream. A slower client is disconnected.
	streamWriteTimeout = 10 * time.Second
	// lineTimeout is how long a client of an import may take to send more.
	lineTimeout = 30 * time.Second
)

// watchLimits bounds streams of events: each asks the database twice a second.
func watchLimits() auth.QuotaLimits {
	return auth.QuotaLimits{
		PerTenant: 50,
		All:       200,
		Reserved:  5,
	}
}

// importLimits bounds imports: each may hold 40 MiB.
func importLimits() auth.QuotaLimits {
	return auth.QuotaLimits{
		PerTenant: 2,
		All:       8,
		Reserved:  1,
	}
}

// Messages for clients that exceed their quota.
const (
	codeTooManyStreams = "too_many_streams"
	codeTooManyTests   = "too_many_tests"
	// codeTooManyAttempts is for keys that are not looked up; see [auth.ThrottledError].
	codeTooManyAttempts = "too_many_attempts"
)

// turns bounds how many streams or tests of a kind are under way, for one tenant and for all of
// them.
type turns struct {
	*auth.Quota

	code string
	busy string // message for a client over its quota
}

// acquire counts one more of a tenant. The error is a 429; otherwise release must be called once.
func (t turns) acquire(tenant [16]byte) (release func(), err error) {
	release, ok := t.Acquire(tenant)
	if !ok {
		return nil, &refusal{
			status: http.StatusTooManyRequests,
			code:   t.code,
			detail: t.busy,
		}
	}
	return release, nil
}

// Drain ends every stream at its next whole line, and those to come at once: a server that stops
// cannot wait for them.
func (s *Server) Drain() { s.drain() }

// whileServing returns a context that ends with the request or when the server drains.
func (s *Server) whileServing(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.serving, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// stream is an answer that is written for as long as it goes on.
type stream struct {
	w          http.ResponseWriter
	controller *http.ResponseController
	broken     atomic.Bool // the client did not take something
}

// openStream prepares an answer of a media type. Nothing is sent before the first write.
func openStream(w http.ResponseWriter, media string) *stream {
	w.Header().Set("Content-Type", media)
	w.Header().Set("X-Accel-Buffering", "no") // Asks proxies to pass lines on as they come.
	return &stream{w: w, controller: http.NewResponseController(w)}
}

// write sends text at once. A client that does not take it within streamWriteTimeout is an error.
// Writers that know no deadline, as in tests without a connection, have none.
func (s *stream) write(text []byte) error {
	_ = s.controller.SetWriteDeadline(time.Now().Add(streamWriteTimeout))
	_, err := s.w.Write(text)
	if err == nil {
		err = s.controller.Flush()
	}
	if err != nil {
		s.broken.Store(true)
	}
	return err
}

// close restores the connection for the next request. The connection of a client that does not read
// is closed, because the server would wait until the client has read the rest.
func (s *stream) close() {
	if s.broken.Load() {
		panic(http.ErrAbortHandler)
	}
	_ = s.controller.SetWriteDeadline(time.Time{})
}
