package store

import (
	"strings"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
)

// newTracer makes spans of the statements of a trace. What is done outside of any, such as looking for work, makes none. Nothing of a
// statement is told but its name: its parameters are what users wrote.
func newTracer(tracers trace.TracerProvider) pgx.QueryTracer {
	return otelpgx.NewTracer(
		otelpgx.WithTracerProvider(tracers), otelpgx.WithMeterProvider(noop.NewMeterProvider()),
		otelpgx.WithDisableConnectionDetailsInAttributes(), otelpgx.WithDisableSQLStatementInAttributes(),
		otelpgx.WithDisableAcquireTracer(), otelpgx.WithSpanNameFunc(statementName),
	)
}

// statementName returns the name under which the generated code sends a statement, else its first word.
func statementName(sql string) string {
	if rest, named := strings.CutPrefix(sql, "-- name: "); named {
		name, _, _ := strings.Cut(rest, " ")
		return name
	}
	word, _, _ := strings.Cut(strings.TrimSpace(sql), " ")
	return word
}
