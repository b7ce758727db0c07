package httpapi

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"rubato/internal/auth"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/forwarded"
)

var requestID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// identify gives every request an id, the client's own where it is harmless in a log, and sets what
// every answer carries.
func (s *Server) identify(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		id := c.Request().Header.Get(echo.HeaderXRequestID)
		if !requestID.MatchString(id) {
			id = rand.Text()
		}
		header := c.Response().Header()
		header.Set(echo.HeaderXRequestID, id)
		header.Set("Cache-Control", "no-store") // Answers hold a tenant's data.
		header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("X-Frame-Options", "DENY")
		s.allowHead(c)
		r := c.Request()
		c.SetRequest(r.WithContext(context.WithValue(r.Context(), callKey{}, call{id: id, peer: forwarded.Client(r, s.proxies)})))
		return next(c)
	}
}

// allowHead adds HEAD to the methods that an answer names, where it is answered; see ServeHTTP. The
// router knows only the registered methods.
func (s *Server) allowHead(c echo.Context) {
	allow, _ := c.Get(echo.ContextKeyHeaderAllow).(string) // Set where the router refuses a method, and where OPTIONS asks.
	if op := s.rules.operations[http.MethodGet+" "+c.Path()]; allow == "" || op == nil || op.streams {
		return
	}
	c.Response().Before(func() {
		c.Response().Header().Set(echo.HeaderAllow, strings.Replace(allow, http.MethodGet, http.MethodGet+", "+http.MethodHead, 1))
	})
}

// call holds the properties of a request that are known before authentication and parsing.
type call struct {
	id   string
	peer string // the address that it comes from; see forwarded.Client
}

type callKey struct{}

func callOf(ctx context.Context) call {
	found, _ := ctx.Value(callKey{}).(call) // Every request has one: see identify.
	return found
}

// bound sets a deadline for every request, except for streamed requests and responses: the
// listener's timeouts are lifted for them.
func (s *Server) bound(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		op := s.operation(c)
		if op != nil && op.streams {
			connection := http.NewResponseController(c.Response())
			_ = connection.SetWriteDeadline(time.Time{}) // A connection without deadlines needs no lifting.
			_ = connection.SetReadDeadline(time.Time{})
			return next(c)
		}
		limit := requestTimeout
		if op != nil && op.sends() {
			limit = testTimeout
			_ = http.NewResponseController(c.Response()).SetWriteDeadline(time.Now().Add(testWriteTimeout)) // Likewise.
		}
		limited, cancel := context.WithTimeout(c.Request().Context(), limit)
		defer cancel()
		ctx, end := context.WithCancelCause(limited)
		defer end(errAnswered) // Before cancel, which would look as if the client had gone.
		c.SetRequest(c.Request().WithContext(ctx))
		return next(c)
	}
}

// errAnswered is the cause of the end of a request's context where nothing else ended it.
var errAnswered = errors.New("the request is answered")

// clientGone reports whether the context of a request ended because its client hung up.
func clientGone(ctx context.Context) bool { return errors.Is(context.Cause(ctx), context.Canceled) }

// recoverPanics turns a panic into an error that is answered and logged like any other.
func (s *Server) recoverPanics(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			switch p := recover(); p {
			case nil:
			case http.ErrAbortHandler: // The server wants this one back.
				panic(p)
			default:
				s.metrics.panics.Inc()
				err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		return next(c)
	}
}

// authenticate identifies the caller, and checks that the key's scopes allow the operation.
func (s *Server) authenticate(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		op := s.operation(c)
		if op == nil || op.public {
			return next(c)
		}
		r := c.Request()
		ctx := r.Context()
		p, vouched := auth.Vouched(ctx)
		if !vouched {
			key := bearer(r.Header)
			var err error
			if p, err = s.auth.AuthenticateFrom(ctx, key, callOf(ctx).peer); err != nil {
				return throttled(c, err)
			}
			ctx = context.WithValue(ctx, keyHashKey{}, auth.Hash(key))
		}
		if !p.May(op.scope) {
			return errs.New(errs.Forbidden, "insufficient_scope", "this needs a key with the scope "+string(op.scope))
		}
		c.SetRequest(r.WithContext(context.WithValue(ctx, principalKey{}, p)))
		return next(c)
	}
}

// throttled turns the refusal to look up one more key into a 429. Any other error stays as it is.
func throttled(c echo.Context, err error) error {
	wait, is := errors.AsType[*auth.ThrottledError](err)
	if !is {
		return err
	}
	c.Response().Header().Set("Retry-After", strconv.Itoa(wait.Seconds()))
	return &refusal{
		status: http.StatusTooManyRequests,
		code:   codeTooManyAttempts,
		detail: wait.Error(),
	}
}

type keyHashKey struct{}

// stillIn asks again whether the key that a request was sent with is active, because a stream lasts
// longer than the key cache. The error is that of [auth.Authenticator.Recognize]. For a vouched
// principal, the vouching caller checks that.
func (s *Server) stillIn(ctx context.Context) error {
	hash, sent := ctx.Value(keyHashKey{}).([sha256.Size]byte)
	if !sent {
		return nil
	}
	_, err := s.auth.Recognize(ctx, hash)
	return err
}

// bearer returns the key of a request, empty where it has none or more than one.
func bearer(header http.Header) string {
	values := header.Values(echo.HeaderAuthorization)
	if len(values) != 1 {
		return ""
	}
	scheme, key, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimLeft(key, " ")
}

type principalKey struct{}

// principalOf returns the principal of the request of ctx.
func principalOf(ctx context.Context) auth.Principal {
	p, _ := ctx.Value(principalKey{}).(auth.Principal) // Every operation that is not public has one: see authenticate.
	return p
}

// actorOf returns the caller as the actor of ledger and audit log entries.
func actorOf(ctx context.Context) endpoints.Actor {
	p := principalOf(ctx)
	from := callOf(ctx)
	return endpoints.Actor{
		TenantID:      p.TenantID,
		KeyID:         p.KeyID,
		Name:          p.Name,
		RequestID:     from.id,
		RemoteAddress: from.peer,
	}
}
