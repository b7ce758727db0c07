// Package claims knows how a worker comes to hold an endpoint: claiming what is due, the lock that a claim carries, extending locks
// by heartbeat, and giving claims back.
//
// # The lock
//
// A lock is a time-bound right to run one endpoint once. It has two halves:
//
//   - Database time decides. A claim pushes the row's due_at to the end of its lock, so nobody else can take the endpoint before;
//     once a run has started, its live row carries the lock, and heartbeats move it on.
//   - The claim token is the fence. Every claim, replan and finish raises it, and every later statement names the token it saw: a
//     start, a heartbeat or a finish under an old token changes nothing. The holder learns that from the rows that come back.
//
// The holder judges its own lock more strictly than the database does: by its monotonic clock, counted from before the statement
// that granted the lock was sent, less a margin. Whatever the clocks of the two machines say, the holder lets go first. A process
// that was stopped finds its lock over when it wakes.
//
// # Failures
//
// A worker that dies while it waits leaves a row whose lock runs out; others take it then, under a higher token. A worker that dies
// during a run leaves a live row, which the sweeper settles before the endpoint runs again. A worker that loses the database stops
// sending requests when its locks run out on its own clock. Losing a claim never loses a due time: the row is the plan.
package claims
