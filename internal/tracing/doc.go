// Package tracing follows what happens through the programs and sends it, as OpenTelemetry spans, to a collector.
//
// It is off unless the environment names a collector. Then nothing of it stands on any path: programs ask [Open], get nothing, and wire
// nothing in. When it is on, a run is a trace whose ID is the run's own, so that a run, its log lines and its trace find each other
// without a table; what is done for many runs at once, a claim or a commit, is a trace of its own that the runs link to.
//
// Attributes are names, numbers and enums of ours. No header, no body, no path or query of a target and no parameter of a statement is
// ever put into one: a URL's path holds as many secrets as its query does.
package tracing
