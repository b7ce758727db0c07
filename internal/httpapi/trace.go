package httpapi

import (
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// traceRequest creates a span for every request that is not a probe, in the client's trace if there
// is one. It gives the route, never the path, the query or a header: they hold what users chose.
func (s *Server) traceRequest(next echo.HandlerFunc) echo.HandlerFunc {
	if s.tracer == nil {
		return next
	}
	return func(c echo.Context) error {
		op := s.operation(c)
		if op != nil && op.public {
			return next(c)
		}
		route, method := other, methodOf(c)
		if op != nil {
			route = op.route
		}
		r := c.Request()
		ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := s.tracer.Start(ctx, method+" "+route, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
			attribute.String("http.request.method", method), attribute.String("http.route", route),
			attribute.String("rubato.request.id", callOf(ctx).id),
		))
		defer span.End()
		c.SetRequest(r.WithContext(ctx))
		err := next(c) // The metrics middleware has answered errors already, so that err is nil.
		status := c.Response().Status
		span.SetAttributes(attribute.Int("http.response.status_code", status))
		if status >= http.StatusInternalServerError {
			span.SetAttributes(attribute.String("error.type", strconv.Itoa(status)))
			span.SetStatus(codes.Error, "")
		}
		return err
	}
}
