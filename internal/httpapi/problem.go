package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/labstack/echo/v4"

	"rubato/internal/errs"
	"rubato/internal/httpapi/api"
)

const (
	problemType = "application/problem+json"

	// retryAfter is how many seconds a client is asked to wait while the database is away: a
	// failover takes a few.
	retryAfter = "2"

	// maxFields bounds the invalid fields of one response, because larger numbers are no honest
	// mistake.
	maxFields = 100
)

// refusal is a request that HTTP alone refuses, before any of the domain's codes applies.
type refusal struct {
	status int
	code   string
	detail string
	fields []errs.Field
}

func (r *refusal) Error() string { return r.detail }

// statusOf is the one table from the classes of errors to HTTP.
func statusOf(code errs.Code) int {
	switch code {
	case errs.Malformed:
		return http.StatusBadRequest
	case errs.Invalid:
		return http.StatusUnprocessableEntity
	case errs.NotFound:
		return http.StatusNotFound
	case errs.Conflict:
		return http.StatusConflict
	case errs.Precondition:
		return http.StatusPreconditionFailed
	case errs.Unauthorized:
		return http.StatusUnauthorized
	case errs.Forbidden:
		return http.StatusForbidden
	case errs.Exhausted:
		return http.StatusTooManyRequests
	case errs.Unavailable:
		return http.StatusServiceUnavailable
	case errs.Internal, errs.Unreadable:
	}
	return http.StatusInternalServerError
}

// problemOf returns the public part of an error as a problem document.
func problemOf(err error) api.Problem {
	if r, ok := errors.AsType[*refusal](err); ok {
		return newProblem(r.status, r.code, r.detail, r.fields)
	}
	if h, ok := errors.AsType[*echo.HTTPError](err); ok {
		return routerProblem(h)
	}
	e, ok := errors.AsType[*errs.Error](err)
	if !ok || statusOf(e.Code) == http.StatusInternalServerError && e.Code != errs.Unreadable {
		return newProblem(http.StatusInternalServerError, string(errs.Internal),
			"something went wrong on our side; the request id finds it in the logs", nil)
	}
	code := e.Reason
	if code == "" {
		code = string(e.Code)
	}
	return newProblem(statusOf(e.Code), code, e.Message, e.Fields)
}

// routerProblem returns the problem of a router error. A 400 comes from parameter binding, which
// validated input never causes.
func routerProblem(h *echo.HTTPError) api.Problem {
	switch h.Code {
	case http.StatusNotFound:
		return newProblem(h.Code, "route_not_found", "there is no such route; /openapi.yaml lists them all", nil)
	case http.StatusMethodNotAllowed:
		return newProblem(h.Code, "method_not_allowed", "the route does not know this method; the header Allow names those that it knows", nil)
	default:
		return newProblem(h.Code, "bad_request", "the request cannot be read", nil)
	}
}

func newProblem(status int, code, detail string, fields []errs.Field) api.Problem {
	p := api.Problem{
		Type:   "about:blank",
		Title:  http.StatusText(status),
		Status: int32(status),
		Code:   code,
		Detail: detail,
	}
	if len(fields) > maxFields {
		p.Detail += fmt.Sprintf(" (the first %d of %d)", maxFields, len(fields))
		fields = fields[:maxFields]
	}
	if len(fields) > 0 {
		p.Errors = new(fieldErrors(fields))
	}
	return p
}

func fieldErrors(fields []errs.Field) []api.FieldError {
	list := make([]api.FieldError, len(fields))
	for i, f := range fields {
		list[i] = api.FieldError{
			Field:   f.Field,
			Code:    f.Code,
			Message: f.Message,
		}
	}
	return list
}

// fail answers an error with its problem document. It is where internal causes are logged, once.
func (s *Server) fail(err error, c echo.Context) {
	p := problemOf(err)
	id := c.Response().Header().Get(echo.HeaderXRequestID)
	s.log(c, err, p, id)
	if c.Response().Committed {
		return
	}
	p.RequestID = &id
	body, err := json.Marshal(p)
	if err != nil { // Nothing in a problem can fail to be JSON.
		body = []byte(`{"type":"about:blank","title":"Internal Server Error","status":500,"code":"internal","detail":"no answer"}`)
	}
	header := c.Response().Header()
	switch p.Status {
	case http.StatusUnauthorized:
		header.Set("WWW-Authenticate", "Bearer")
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		if header.Get("Retry-After") == "" { // An explicit value takes precedence.
			header.Set("Retry-After", retryAfter)
		}
	}
	if err := c.Blob(int(p.Status), problemType, body); err != nil {
		s.logger.DebugContext(c.Request().Context(), "answer not written", "request_id", id, "error", err)
	}
}

func (s *Server) log(c echo.Context, err error, p api.Problem, id string) {
	ctx := c.Request().Context()
	level := slog.LevelError
	switch {
	case p.Status < http.StatusInternalServerError:
		return
	case clientGone(ctx), p.Code == codeNotReady: // Not a server error, or already logged once by the health checks.
		level = slog.LevelDebug
	case p.Status == http.StatusServiceUnavailable:
		level = slog.LevelWarn
	}
	s.logger.Log(ctx, level, "request failed", "request_id", id, "method", c.Request().Method, "route", c.Path(), "error", err)
}
