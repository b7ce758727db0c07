// Package failpoint names the points in the life of a run at which a test may kill, stop or pause
// the process.
//
// In a build without the tag failpoints, Hit is empty and is removed by inlining. With the tag, two
// variables of the environment select the actions:
//
//	FAILPOINTS=before_send=kill@3,answered=pause:/path/to/file
//	FAILPOINTS_REPORT=/path/to/report
//
// Each entry is a point, an action, and the number of the hit at which it acts; the default is the
// first. Every hit of an armed point appends a line to the report before the action, so that a test
// can distinguish a fault that fired from one that was never reached.
package failpoint

// Point is a point in the life of a run. Points of batches are hit once per batch.
type Point string

// The points, in the order in which a run reaches them.
const (
	// Claimed: claims were returned by the database and are not queued yet.
	Claimed Point = "claimed"
	// BeforeSend: the start is committed and no byte of the request has been sent.
	BeforeSend Point = "before_send"
	// Answered: the response has arrived and nothing of it is recorded.
	Answered Point = "answered"
	// BeforeFinish: just before the transaction that records runs.
	BeforeFinish Point = "before_finish"
	// AfterFinish: just after that transaction, before the worker has applied its result.
	AfterFinish Point = "after_finish"
)

// Advised is a point of the planner: an advisor has judged an endpoint, and the result is not
// recorded. Runs do not reach it.
const Advised Point = "advised"

// Noticed is a point of the courier: a receiver has accepted a notice, and that is not recorded.
// Runs do not reach it.
const Noticed Point = "noticed"

// Sweeping is a point of the leading sweeper: a sweep is about to begin. Runs do not reach it.
const Sweeping Point = "sweeping"

// Advancing and Advanced are points of chains: just before and just after the commit that advances
// a run of a chain. Runs do not reach them.
const (
	Advancing Point = "chain_advancing"
	Advanced  Point = "chain_advanced"
)

// Points returns the points of runs, in the order in which a run reaches them.
func Points() []Point { return []Point{Claimed, BeforeSend, Answered, BeforeFinish, AfterFinish} }
