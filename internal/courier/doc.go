// Package courier delivers notices: it claims them from the outbox, sends them by the channel of their rule, and records what came of it.
//
// Every worker process has a courier. A claim is a lock with a fence, as the claim of an endpoint is: what a process held that died is
// sent by the next one when the lock is over, under the same ID, so that a receiver that has it already can tell. So a notice arrives at
// least once, and an episode has one, whoever sends it. What cannot be delivered waits longer and longer, and is given up at last: a
// dead letter, which an operator can send again.
//
// The courier also looks after episodes, one program at a time, and keeps the book that finishes go by up to date.
package courier
