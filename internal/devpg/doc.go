// Package devpg runs a private Postgres cluster for one process: the database of `rubato dev`, and of the tests.
//
// The idea: the cluster belongs to the process that started it and cannot outlive it. Every program that this package starts
// (postgres, initdb, cp) has a small shell as its parent, and that shell waits on a pipe whose other end only this process holds.
// However the process ends, kill -9 included, the pipe closes and the shell sends the program its signal to stop. No pid file of
// ours has to be right for that.
//
// What is authoritative: the file "lock" in the directory, locked by the process that owns the cluster; the file
// "children.lock", which those shells inherit, so that the next Start waits until what a killed process left behind is gone;
// and "data/PG_VERSION", which decides which major version of Postgres runs. A data directory appears by one rename, so it is
// whole or absent. A postgres that lost even its shell is found by data/postmaster.pid, checked against the command line of the
// process with that number (numbers are reused), and stopped.
//
// The server listens on a Unix socket only, in a fresh directory that no other user may enter; nobody needs a password, and
// nothing is reachable from the network. Postgres refuses to run as root, so root starts it as the user postgres, else nobody.
package devpg
