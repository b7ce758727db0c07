// Package telemetry is how programs tell what they do: log lines with one vocabulary, metrics in one registry, and the admin
// handler that serves metrics, health and profiles. Of the programs it knows no more than what a DatabaseReader tells and what a
// Check asks.
package telemetry

// The keys of log attributes. A fact has the same key wherever it is logged, so that one search finds it everywhere.
const (
	KeyComponent  = "component"
	KeyEndpointID = "endpoint_id"
	KeyRunID      = "run_id"
	KeyClaimToken = "claim_token"
	KeyWorkerID   = "worker_id"
	KeyAttempt    = "attempt"
	KeyReason     = "reason"
	KeyDuration   = "duration"
	KeyError      = "error"
)
