package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
)

// preflightLife is the cache lifetime of a preflight response in browsers, in seconds.
const preflightLife = "600"

// exposed are the headers of answers that scripts of allowed origins may read.
func exposed() string {
	return strings.Join([]string{"ETag", "Location", "X-Request-Id", "Retry-After", "RateLimit", "RateLimit-Policy", idempotencyReplayed}, ", ")
}

// share lets scripts of the allowed origins read answers; without any, no answer says a word about
// it. Keys are sent by hand, never by the browser itself, so credentials are never allowed.
func (s *Server) share(next echo.HandlerFunc) echo.HandlerFunc {
	if len(s.origins) == 0 {
		return next
	}
	return func(c echo.Context) error {
		r, header := c.Request(), c.Response().Header()
		header.Add("Vary", "Origin")
		origin := r.Header.Get("Origin")
		if !slices.Contains(s.origins, origin) {
			return next(c)
		}
		header.Set("Access-Control-Allow-Origin", origin)
		if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
			header.Set("Access-Control-Expose-Headers", exposed())
			return next(c)
		}
		header.Set("Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE")
		header.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, If-Match, If-None-Match, Idempotency-Key, Last-Event-ID, X-Request-Id")
		header.Set("Access-Control-Max-Age", preflightLife)
		return c.NoContent(http.StatusNoContent)
	}
}
