package httpapi

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"rubato/internal/errs"
	"rubato/internal/idempotency"
)

const (
	idempotencyKey      = "Idempotency-Key"
	idempotencyReplayed = "Idempotency-Replayed"

	maxIdempotencyKey = 255

	// settleTimeout bounds the write that completes an attempt after its request, which may be
	// canceled by then.
	settleTimeout = 2 * time.Second
)

// IdempotencyStore keeps the answers to requests that named an Idempotency-Key.
type IdempotencyStore interface {
	// Reserve takes the key of an attempt, or says what became of the request that took it before.
	// The answer is that of the other request where the state is Answered.
	Reserve(ctx context.Context, a idempotency.Attempt) (idempotency.State, idempotency.Answer, error)
	// Complete keeps the answer of an attempt.
	Complete(ctx context.Context, a idempotency.Attempt, answer idempotency.Answer) error
	// Release gives the key of an attempt back; outcomeKnown says that nothing that the attempt
	// began can still take effect.
	Release(ctx context.Context, a idempotency.Attempt, outcomeKnown bool) error
}

// doOnce executes a request with an Idempotency-Key once, and replays the stored response to
// repeated requests.
func (s *Server) doOnce(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		op := s.operation(c)
		if op == nil || !op.once || len(c.Request().Header.Values(idempotencyKey)) == 0 {
			return next(c)
		}
		if in := inputOf(c.Request().Context()); len(in.malformed) > 0 { // It will be refused.
			return next(c)
		}
		a := attemptOf(c, op)
		state, answer, err := s.once.Reserve(c.Request().Context(), a)
		if err != nil {
			return err
		}
		switch state {
		case idempotency.Reserved:
			return s.attempt(c, next, a)
		case idempotency.Answered:
			return replay(c, a, answer)
		case idempotency.Other:
			return errs.New(errs.Invalid, "idempotency_conflict", "this Idempotency-Key was used for another request; choose a new key for a new request")
		case idempotency.Busy:
			c.Response().Header().Set("Retry-After", "1")
			return errs.New(errs.Conflict, "idempotency_in_progress", "a request with this Idempotency-Key is under way; try again when it has ended")
		case idempotency.Unknown:
		}
		return errs.New(errs.Conflict, "idempotency_unknown", "the request with this Idempotency-Key was carried out, but its answer was lost; look at what it changed")
	}
}

// attemptOf returns the attempt that a request is.
func attemptOf(c echo.Context, op *operation) idempotency.Attempt {
	r := c.Request()
	key := r.Header.Get(idempotencyKey)
	a := idempotency.Attempt{Key: idempotency.Key{
		TenantID: principalOf(r.Context()).TenantID,
		Route:    op.method + " " + op.route,
		Hash:     sha256.Sum256([]byte(key)),
	}}
	_, _ = rand.Read(a.Token[:]) // It never fails.
	body := inputOf(r.Context()).sum
	a.Fingerprint = sha256.Sum256(fmt.Appendf(nil, "%q %q %x", r.URL.EscapedPath(), r.URL.RawQuery, body))
	return a
}

// attempt executes a request and stores its response before sending it. A failure is not stored:
// the key is released, unless something took effect.
func (s *Server) attempt(c echo.Context, next echo.HandlerFunc, a idempotency.Attempt) error {
	writer, kept := c.Response().Writer, &recorder{header: c.Response().Header()}
	c.Response().Writer = kept
	c.SetRequest(c.Request().WithContext(idempotency.With(c.Request().Context(), a)))
	known := false
	defer func() {
		c.Response().Writer = writer
		if kept.status == 0 { // It failed, or panicked.
			s.release(c, a, known)
		}
	}()
	if err := next(c); err != nil {
		known = problemOf(err).Status < http.StatusInternalServerError
		return err
	}
	s.complete(c, a, kept)
	writer.WriteHeader(kept.status)
	_, err := writer.Write(kept.body.Bytes())
	return err
}

func (s *Server) release(c echo.Context, a idempotency.Attempt, outcomeKnown bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request().Context()), settleTimeout)
	defer cancel()
	if err := s.once.Release(ctx, a, outcomeKnown); err != nil {
		s.logger.Warn("an idempotency key was not given back; it is free in a minute", "error", err)
	}
}

// complete keeps an answer. One that cannot be kept is given all the same: the request took effect,
// and is not done again.
func (s *Server) complete(c echo.Context, a idempotency.Attempt, kept *recorder) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request().Context()), settleTimeout)
	defer cancel()
	answer := idempotency.Answer{
		Status: kept.status,
		Header: map[string]string{},
		Body:   kept.body.Bytes(),
	}
	for _, name := range keptHeaders() {
		if value := kept.header.Get(name); value != "" {
			answer.Header[name] = value
		}
	}
	if op := s.operation(c); op.secret {
		answer.Body, answer.Sealed = seal(answer.Body, a, bearer(c.Request().Header)), true
	}
	if len(answer.Body) > idempotency.MaxBody {
		s.logger.Warn("an answer is too large to be kept under its idempotency key", "bytes", len(answer.Body))
		return
	}
	if err := s.once.Complete(ctx, a, answer); err != nil {
		s.logger.Warn("an answer was not kept under its idempotency key", "error", err)
	}
}

// keptHeaders are the response headers that are stored and replayed, because they belong to the
// result, not to the request.
func keptHeaders() []string { return []string{echo.HeaderContentType, "ETag", echo.HeaderLocation} }

// replay sends the stored response.
func replay(c echo.Context, a idempotency.Attempt, answer idempotency.Answer) error {
	if answer.Sealed {
		body, err := unseal(answer.Body, a, bearer(c.Request().Header))
		if err != nil {
			return errs.New(errs.Conflict, "idempotency_unknown", "the answer holds a secret, which only the API key that asked first can read again")
		}
		answer.Body = body
	}
	header := c.Response().Header()
	for name, value := range answer.Header {
		header.Set(name, value)
	}
	header.Set(idempotencyReplayed, strconv.FormatBool(true))
	c.Response().WriteHeader(answer.Status)
	_, err := c.Response().Write(answer.Body)
	return err
}

// recorder keeps an answer instead of sending it.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header returns the header of the answer.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader keeps the status.
func (r *recorder) WriteHeader(status int) { r.status = status }

// Write keeps a part of the body.
func (r *recorder) Write(part []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.body.Write(part)
}
