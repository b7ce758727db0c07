package pg

import (
	"strings"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
)

// newTracer makes spans for the statements of a trace. Statements outside of a trace, such as
// claims, make none. A span has only the name of the statement, because parameters are user data.
func newTracer(tracers trace.TracerProvider) pgx.QueryTracer {
	return otelpgx.NewTracer(
		otelpgx.WithTracerProvider(tracers), otelpgx.WithMeterProvider(noop.NewMeterProvider()),
		otelpgx.WithDisableConnectionDetailsInAttributes(), otelpgx.WithDisableSQLStatementInAttributes(),
		otelpgx.WithDisableAcquireTracer(), otelpgx.WithSpanNameFunc(statementName),
	)
}

// statementName returns the name of a generated statement, else the first word of the SQL.
func statementName(sql string) string {
	if rest, named := strings.CutPrefix(sql, "-- name: "); named {
		name, _, _ := strings.Cut(rest, " ")
		return name
	}
	word, _, _ := strings.Cut(strings.TrimSpace(sql), " ")
	return word
}
