// Package app holds what every program is made of, and assembles those that serve nobody over HTTP but their operators: the
// scheduler-worker, the planner, and the tasks of the command line that use the database. The API server is in apiserver, `rubato dev`,
// which is all of them on a private Postgres, in dev: who runs a worker needs neither in memory.
//
// A program is a value with a Run method that blocks until its context ends and then drains, so that a main function maps flags and
// signals to it and nothing else, and a test runs it on port 0. It runs [Part]s on a [Core].
//
// Nothing here decides anything about endpoints, runs or locks: the packages that know do. The order in which things start is
// listeners, database, loops, so that what a user did wrong is said first; they end the other way round.
package app
