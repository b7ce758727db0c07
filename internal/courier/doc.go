// Package courier delivers notices. It claims them from the transactional outbox, sends them by the
// channel of their rule, and records the result.
//
// Every worker process runs a courier. A claim is a lock with a fencing token, like the claim of an
// endpoint. If a process dies, another one sends its notices after the lock expires, under the same
// ID, so that a receiver can drop the duplicate. Delivery is therefore at least once. A failed
// delivery is retried with exponential backoff, and becomes a dead letter after the last attempt.
// An operator can send a dead letter again.
//
// The courier also opens and closes episodes, under a lock that one process holds at a time. It
// refreshes the rule cache that finishes read.
package courier
