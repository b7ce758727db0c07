package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"rubato/internal/claims"
)

// Claims creates a span for every claim that claimed endpoints or failed. Empty polls get none,
// because they happen every second.
type Claims struct {
	claims.Store

	tracer trace.Tracer
}

// NewClaims wraps the store of claims. It returns the store itself if tracing is off.
func NewClaims(p *Provider, s claims.Store) claims.Store {
	if p == nil {
		return s
	}
	return &Claims{Store: s, tracer: p.tracer()}
}

// ClaimDue implements claims.Store.
func (c *Claims) ClaimDue(ctx context.Context, r claims.Request) ([]claims.Claim, time.Time, error) {
	began := time.Now()
	list, now, err := c.Store.ClaimDue(ctx, r)
	if len(list) == 0 && err == nil {
		return list, now, nil
	}
	_, span := c.tracer.Start(ctx, "claim", trace.WithNewRoot(), trace.WithTimestamp(began), trace.WithAttributes(
		attribute.Int("rubato.claim.limit", r.Limit), attribute.Int64("rubato.claim.horizon_ms", r.Horizon.Milliseconds()),
		attribute.Int("rubato.claim.size", len(list)),
	))
	end(span, err)
	return list, now, err
}

// end ends a span that may have failed. The span does not contain the error's text, because that
// may hold secrets; the log has it.
func end(span trace.Span, err error) {
	if err != nil {
		fail(span, otherError)
	}
	span.End()
}

// fail marks a span as failed. kind becomes error.type and must have few distinct values.
func fail(span trace.Span, kind string) {
	span.SetAttributes(semconv.ErrorTypeKey.String(kind))
	span.SetStatus(codes.Error, "")
}
