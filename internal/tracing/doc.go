// Package tracing exports OpenTelemetry spans and metrics to a collector.
//
// It is off unless the environment names a collector. When it is off, [Open] returns nil and
// programs wrap nothing, so that it adds no cost. When it is on, every run is a trace whose ID is
// the run's ID. A run, its log lines and its trace can therefore be found from each other without a
// table. Batches, such as a claim or a commit, are separate traces to which the runs link.
//
// Attributes are names, numbers and enums of Rubato. They never contain headers, bodies, parameters
// of statements, or the path and query of a target, because all of these may hold secrets.
package tracing
