package tracing

import (
	"context"
	"encoding/binary"
	"math/rand/v2"

	"go.opentelemetry.io/otel/trace"
)

// traceIDKey is the context key for the ID of the next root trace.
type traceIDKey struct{}

// ids generates the IDs of spans and traces. The trace of a run has the run's ID.
type ids struct{}

// NewIDs implements sdktrace.IDGenerator.
func (g ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	id, named := ctx.Value(traceIDKey{}).(trace.TraceID)
	if !named {
		binary.BigEndian.PutUint64(id[:8], rand.Uint64())   //nolint:gosec // IDs are not secret.
		binary.BigEndian.PutUint64(id[8:], rand.Uint64()|1) //nolint:gosec // IDs are not secret. The low bit is set because zero is invalid.
	}
	return id, g.NewSpanID(ctx, id)
}

// NewSpanID implements sdktrace.IDGenerator.
func (ids) NewSpanID(context.Context, trace.TraceID) (id trace.SpanID) {
	binary.BigEndian.PutUint64(id[:], rand.Uint64()|1) //nolint:gosec // IDs are not secret. The low bit is set because zero is invalid.
	return id
}
