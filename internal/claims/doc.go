// Package claims locks endpoints for workers: it claims due endpoints, extends their locks by
// heartbeat, and releases claims.
//
// # The lock
//
// A lock is a time-bound right to run one endpoint once. It has two halves:
//
//   - Database time decides. A claim sets the row's due_at to the end of its lock, so that no other
//     worker claims the endpoint before. Once a run has started, its live row carries the lock, and
//     heartbeats extend it.
//   - The claim token is the fence. Every claim, release, replan and finish raises it. Every later
//     statement names the token it saw, therefore a start, a heartbeat or a finish under an old
//     token changes no row. The holder sees that by the returned rows.
//
// The holder is stricter than the database. It measures its lock on its monotonic clock, from
// before the granting statement was sent, less a margin. Therefore the holder stops first, even if
// the clocks of the two machines differ. A process that was suspended finds its lock expired when
// it resumes.
//
// # Failures
//
// If a worker dies before a start, its lock expires, and another worker claims the endpoint under a
// higher token. If a worker dies during a run, the sweeper settles the live row before the endpoint
// runs again. If a worker loses the database, it stops sending requests when its locks expire on
// its own clock. A lost claim never loses a due time, because the row is the plan.
package claims
