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

// Kind says why the service gave no answer that can be used.
type Kind string

// The kinds of failures.
const (
	Unreachable Kind = "unreachable" // no connection, or one that broke
	TimedOut    Kind = "timed_out"   // no answer in time
	Throttled   Kind = "throttled"   // it asked to be left alone, and is
	Denied      Kind = "denied"      // a status of 400 to 499: the key, the model or the request is wrong
	Unavailable Kind = "unavailable" // a status of 500 or more
	Unreadable  Kind = "unreadable"  // an answer that is no completion
	TooLarge    Kind = "too_large"   // an answer longer than any completion
	BreakerOpen Kind = "rested"      // not asked, since it failed a moment ago
)

// Failure is why the service gave no answer that can be used. Its text names the kind and the status and nothing else: what the
// service writes may repeat the key, and what a connection's error tells may hold the secret part of a URL.
type Failure struct { //nolint:errname // It is one of a kind; see Kind.
	Kind    Kind
	Status  int       // of the answer, where there was one
	RetryAt time.Time // before which nothing is asked, where that is known
	cause   error     // context.Canceled or context.DeadlineExceeded, so that callers can tell a shutdown
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

// Unwrap returns the end of a context where that is what ended the call.
func (f *Failure) Unwrap() error { return f.cause }

// free reports whether a request that failed used nothing, where left says whether it had left for the service. A service that refuses a
// request by its status did nothing for it; one that failed over it, or never said, may charge for what its model did meanwhile.
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

// failure names what ended a call by its kind, and forgets the rest of err.
func failure(ctx context.Context, err error) *Failure {
	if known, ok := errors.AsType[*Failure](err); ok {
		return &Failure{Kind: known.Kind, Status: known.Status, RetryAt: known.RetryAt, cause: known.cause}
	}
	if api, ok := errors.AsType[*openai.APIError](err); ok {
		return byStatus(api.HTTPStatusCode)
	}
	if request, ok := errors.AsType[*openai.RequestError](err); ok {
		return byStatus(request.HTTPStatusCode)
	}
	return byCause(ctx, err)
}

// byStatus names the kind of an answer that is an error. Some services answer 200 and an error in the body.
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

// byCause names the kind of a call that ended without an answer, or in the middle of one.
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

// malformed reports whether err is about the JSON of an answer that arrived whole as far as HTTP is concerned.
func malformed(err error) bool {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	return errors.As(err, &syntax) || errors.As(err, &kind) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
