// Package bench measures Rubato on the machine that it runs on, beside what that machine could do at best.
//
// A bench starts everything that it needs: a private Postgres that is durable (fsync on, synchronous commit), the API server and
// the workers as processes of their own, and a sink that answers every request and notes when it came. It registers endpoints over
// the API, as a user would, lets them come due, and reads what happened from three sources that the programs under test do not
// control: the sink's clock, the commit timestamps of Postgres, and the accounts of CPU time that the kernel keeps.
//
// In the same round, on the same Postgres with the same settings and against the same sink, it lets the contenders do the same
// work: the bare client (no database at all), the ideal pipeline (the least that a durable scheduler can do) and the fenced one (the same
// with the statements that Rubato's promises need) are ceilings, River is a peer. Rounds are interleaved, and what is reported is the median.
//
// Every process is this same program, started again with the name of a [Role]; one that loses its parent ends by itself.
package bench
