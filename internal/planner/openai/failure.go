package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	openai "github.com/sashabaranov/go-openai"
)

// Kind classifies why a request returned no usable completion.
type Kind string

// The kinds of failures.
const (
	Unreachable Kind = "unreachable"  // no connection, or the connection broke
	TimedOut    Kind = "timed_out"    // timeout
	Throttled   Kind = "throttled"    // the service asked to wait
	Denied      Kind = "denied"       // status 400 to 499: wrong key, model or request
	Unavailable Kind = "unavailable"  // status 500 or more
	Unreadable  Kind = "unreadable"   // not a completion
	TooLarge    Kind = "too_large"    // longer than any completion
	BreakerOpen Kind = "breaker_open" // a circuit breaker is open
)

// Failure is the error of a request without a usable completion. Its text holds only the kind and
// the status, because the service's text may repeat the API key, and a connection error may hold
// the secret part of a URL.
type Failure struct { //nolint:errname // It is one of a kind; see Kind.
	Kind    Kind
	Status  int       // HTTP status, if there was a response
	RetryAt time.Time // earliest next request, if known
	// cause is context.Canceled or context.DeadlineExceeded, so that callers can detect a shutdown.
	cause error
}

// Error names the kind, the status, and when to try again.
func (f *Failure) Error() string {
	text := "asking the model: " + string(f.Kind)
	if f.Status != 0 {
		text += fmt.Sprintf(", status %d", f.Status)
	}
	if !f.RetryAt.IsZero() {
		text += ", not again before " + f.RetryAt.UTC().Format(time.RFC3339)
	}
	return text
}

// Unwrap returns the context error that ended the call, if any.
func (f *Failure) Unwrap() error { return f.cause }

// unbilled reports whether a failed request cost nothing. sent reports whether it reached the
// service. A request that was refused by a 4xx status costs nothing. After a 5xx status or a
// timeout the service may charge for its model's work.
func (f *Failure) unbilled(left bool) bool {
	switch {
	case f.Status >= http.StatusInternalServerError:
		return false
	case f.Status >= http.StatusBadRequest:
		return true
	default:
		return !left
	}
}

// failure classifies the error of a call and drops its text.
func failure(ctx context.Context, err error) *Failure {
	if known, ok := errors.AsType[*Failure](err); ok {
		return &Failure{
			Kind:    known.Kind,
			Status:  known.Status,
			RetryAt: known.RetryAt,
			cause:   known.cause,
		}
	}
	if api, ok := errors.AsType[*openai.APIError](err); ok {
		return byStatus(api.HTTPStatusCode)
	}
	if request, ok := errors.AsType[*openai.RequestError](err); ok {
		return byStatus(request.HTTPStatusCode)
	}
	return byCause(ctx, err)
}

// byStatus classifies an error response. Some services answer 200 with an error in the body.
func byStatus(status int) *Failure {
	switch {
	case status == http.StatusTooManyRequests:
		return &Failure{Kind: Throttled, Status: status}
	case status >= http.StatusInternalServerError:
		return &Failure{Kind: Unavailable, Status: status}
	case status >= http.StatusBadRequest, status >= http.StatusMultipleChoices && status < http.StatusBadRequest:
		return &Failure{Kind: Denied, Status: status}
	default:
		return &Failure{Kind: Unreadable, Status: status}
	}
}

// byCause classifies a call that ended without a complete response.
func byCause(ctx context.Context, err error) *Failure {
	var timeout net.Error
	switch {
	case ctx.Err() != nil:
		kind := TimedOut
		if errors.Is(ctx.Err(), context.Canceled) {
			kind = Unreachable
		}
		return &Failure{Kind: kind, cause: ctx.Err()}
	case errors.As(err, &timeout) && timeout.Timeout():
		return &Failure{Kind: TimedOut, cause: context.DeadlineExceeded}
	case malformed(err):
		return &Failure{Kind: Unreadable}
	default:
		return &Failure{Kind: Unreachable}
	}
}

// malformed reports whether err is a JSON error in a complete HTTP response.
func malformed(err error) bool {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	return errors.As(err, &syntax) || errors.As(err, &kind) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// ofService reports whether the service itself failed. A service that throttles, denies a request
// or returns an invalid completion is reachable.
func (f *Failure) ofService() bool {
	switch f.Kind {
	case Throttled, BreakerOpen, Denied, Unreadable, TooLarge:
		return false
	case Unreachable, TimedOut, Unavailable:
	}
	return true
}
