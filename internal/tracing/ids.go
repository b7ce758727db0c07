package tracing

import (
	"context"
	"encoding/binary"
	"math/rand/v2"

	"go.opentelemetry.io/otel/trace"
)

// traceIDKey is where a context names the ID of the trace that begins in it.
type traceIDKey struct{}

// ids makes the IDs of spans and traces. Traces of runs have the IDs of the runs.
type ids struct{}

// NewIDs implements sdktrace.IDGenerator.
func (g ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	id, named := ctx.Value(traceIDKey{}).(trace.TraceID)
	if !named {
		binary.BigEndian.PutUint64(id[:8], rand.Uint64())   //nolint:gosec // Names, not secrets.
		binary.BigEndian.PutUint64(id[8:], rand.Uint64()|1) //nolint:gosec // Names, not secrets. Zero is none.
	}
	return id, g.NewSpanID(ctx, id)
}

// NewSpanID implements sdktrace.IDGenerator.
func (ids) NewSpanID(context.Context, trace.TraceID) (id trace.SpanID) {
	binary.BigEndian.PutUint64(id[:], rand.Uint64()|1) //nolint:gosec // Names, not secrets. Zero is none.
	return id
}
