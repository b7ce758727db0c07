// Package app assembles the programs: the API server, the scheduler-worker, the planner, and `rubato dev`, which is all three on a private
// Postgres.
// A program is a value with a Run method that blocks until its context ends and then drains, so that a main function maps flags and
// signals to it and nothing else, and a test runs it on port 0.
//
// Nothing here decides anything about endpoints, runs or locks: the packages that know do. The order in which things start is
// listeners, database, loops, so that what a user did wrong is said first; they end the other way round.
package app
