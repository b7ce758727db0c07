// Package failpoint names the moments in the life of a run at which a test may kill, stop or hold the process.
//
// A program built without the tag failpoints holds none of it: Hit is empty there and disappears when it is inlined. With the tag,
// the environment says what happens, in two variables:
//
//	FAILPOINTS=before_send=kill@3,answered=pause:/path/to/file
//	FAILPOINTS_REPORT=/path/to/report
//
// Each entry names a point, an action, and at which hit of the point it acts (the first unless @ says otherwise). Every hit of an
// armed point adds a line to the report before anything happens, so that a test can tell a fault that fired from one that never
// came up.
package failpoint

// Point is a moment in the life of a run. One hit stands for one batch where the moment is of a batch.
type Point string

// The points, in the order in which a run meets them.
const (
	Claimed      Point = "claimed"       // claims came back from the database and have not been queued
	BeforeSend   Point = "before_send"   // the start is committed, no byte of the request has left
	Answered     Point = "answered"      // the answer is there, nothing of it is recorded
	BeforeFinish Point = "before_finish" // just before the transaction that records runs
	AfterFinish  Point = "after_finish"  // just after it, before the worker has taken in what it decided
)

// Advised is a moment of the planner: an advisor has judged an endpoint, and nothing of it is recorded. Runs never meet it.
const Advised Point = "advised"

// Noticed is a moment of the courier: a receiver has taken a notice, and nothing of it is recorded. Runs never meet it.
const Noticed Point = "noticed"

// Sweeping is a moment of the sweeper that leads: a sweep is about to begin. Runs never meet it.
const Sweeping Point = "sweeping"

// Points returns every point, in the order in which a run meets them.
func Points() []Point { return []Point{Claimed, BeforeSend, Answered, BeforeFinish, AfterFinish} }
