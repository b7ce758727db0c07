// Package devpg runs a private Postgres cluster for one process: the database of `rubato dev` and
// of the tests.
//
// The cluster belongs to the process that started it and cannot outlive it. Every program that this
// package starts (postgres, initdb, cp) has a small shell as its parent. That shell reads from a
// pipe, and only this process holds its other end. When the process ends, even by kill -9, the pipe
// closes and the shell signals the program to stop. This does not depend on a pid file.
//
// Three files in the directory are authoritative. The process that owns the cluster locks "lock".
// Its shells inherit "children.lock", so that the next Start waits until the programs of a killed
// process have ended. "data/PG_VERSION" determines the major version of Postgres. A data directory
// is created by one rename, so that it is complete or absent.
//
// A postgres may lose even its shell. Start finds it by data/postmaster.pid and stops it. Because
// process IDs are reused, Start first checks the command line of the process.
//
// The server listens on a Unix socket only, in a new directory that no other user may enter. It
// therefore needs no password and is not reachable from the network. Postgres refuses to run as
// root, so root starts it as the user postgres, or as nobody if that user does not exist.
package devpg
