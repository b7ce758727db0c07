// Package simulate runs endpoints against simulated targets in virtual time, and compares the delay
// from a change of a target to its detection with that of a fixed interval.
//
// The endpoints are the shipped ones: [endpoints.Endpoint] decides after each run, the planner's
// rules analyse within its guardrails, and prices of shared budgets move as in a worker. Only the
// targets are simulated, by a [Process] of changes and a [Target]. The package reads no clock:
// equal scenarios and seeds give equal results, on any number of processors.
package simulate
