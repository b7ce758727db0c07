package httpapi

import (
	"github.com/labstack/echo/v4"

	"rubato/internal/answers"
)

// compress compresses large answers for clients that accept it. Streams, which are flushed bit by
// bit, are not.
func (s *Server) compress(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		c.Response().Header().Add("Vary", "Accept-Encoding")
		if !answers.AcceptsGzip(c.Request().Header) {
			return next(c)
		}
		w := answers.NewWriter(c.Response().Writer)
		c.Response().Writer = w
		defer func() { c.Response().Writer = w.ResponseWriter }()
		err := next(c)
		if closing := w.Close(); err == nil {
			err = closing
		}
		return err
	}
}
