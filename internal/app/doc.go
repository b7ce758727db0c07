// Package app assembles the scheduler-worker, the planner and the database tasks of the command
// line. The API server is in package apiserver. `rubato dev`, which runs all of them on a private
// Postgres, is in package dev. They are separate so that a worker does not hold the API's code in
// memory.
//
// A program is a value with a Run method. Run blocks until its context ends and then shuts down
// gracefully. A main function only maps flags and signals to it, so that a test can run the same
// program on port 0. A program runs [Part]s on a [Core].
//
// This package makes no decisions about endpoints, runs or locks. The start order is listeners,
// database, loops, because a mistake of the user is then reported first. The order of the shutdown
// is the reverse.
package app
