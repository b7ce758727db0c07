// Package bench measures Rubato on the local machine, next to the best that the machine can do.
//
// A bench starts its own processes: a durable private Postgres (fsync on, synchronous commit), the
// API server and the workers, and a sink that answers every request and records its arrival time.
// It registers endpoints over the API like a user, and lets them come due. The results come from
// three sources outside the programs under test: the sink's clock, the commit timestamps of
// Postgres, and the kernel's CPU accounts.
//
// Each round runs the other contenders with the same work, on the same Postgres settings and
// against the same sink. The bare client has no database. The ideal pipeline is the minimum of a
// durable scheduler. The fenced pipeline adds the statements that Rubato's guarantees need. These
// three are ceilings; River is a peer. Rounds are interleaved, and medians are reported, because
// the speed of a machine drifts.
//
// Every process is this same program, started with the name of a [Role]. A process that loses its
// parent exits by itself.
package bench
