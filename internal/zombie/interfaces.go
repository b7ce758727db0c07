package zombie

import (
	"context"
	"time"

	"rubato/internal/runs"
)

// Store is what sweeping needs of the database: what each sweep needs, and the turn to sweep.
type Store interface {
	Election
	Workers
	Runs
	Locks
	History
}

// Turns is how sweepers elect a leader.
type Election interface {
	// Clock returns the database's time.
	Clock(ctx context.Context) (time.Time, error)
	// Alone takes the sweeper's lock and runs lead, unless another sweeper of this database holds it, and
	// reports whether it did. The context of lead ends when the lock is lost.
	Lead(ctx context.Context, lead func(context.Context) error) (bool, error)
}

// Workers is what becomes of workers that fall silent.
type Workers interface {
	// TakeOver frees the claims of silent workers that they never started; it returns how many.
	TakeOver(ctx context.Context, s TakeOverFilter) (int, error)
	// Retire marks workers as gone that have been silent for so long and left nothing live; it returns how many.
	Retire(ctx context.Context, silent time.Duration) (int, error)
}

// Runs is what becomes of runs that nobody will end.
type Runs interface {
	// ListLost returns live runs that nothing will ever update, those longest over first.
	ListLost(ctx context.Context, q Search) ([]Lost, error)
	// Settle ends a run that was listed as lost, if by the same signal it still is, and plans what follows it like any finish.
	Settle(ctx context.Context, signal Signal, run runs.Run) (bool, error)
	// Survey counts live runs.
	CountLive(ctx context.Context, staleAfter time.Duration) (LiveCounts, error)
}

// Locks is what becomes of locks that nothing moves on or ends.
type Locks interface {
	// ClampClaims brings back up to limit locks of claims that end later than any granted now could, and returns how many.
	ClampClaims(ctx context.Context, ttl time.Duration, limit int) (int, error)
	// ClampRuns does the same for live runs and for the signs of life of workers.
	ClampRuns(ctx context.Context, ttl time.Duration) (int, error)
	// FreeStuck frees up to limit claims whose locks have been over for so long and which nobody has taken; it returns how many.
	FreeStuck(ctx context.Context, over time.Duration, limit int) (int, error)
}

// History is the days of history.
type History interface {
	// KeepHistory makes days ready and drops those past their retention; it returns how many it dropped.
	KeepHistory(ctx context.Context, r Retention) (int, error)
}

// Silence says whose claims to free.
type TakeOverFilter struct {
	For   time.Duration // workers that have not been heard of for longer
	Reach time.Duration // claims whose locks end within it, which is all that can be granted
}

// Signal says what counts as a sign that a worker is gone.
type Signal struct {
	StaleAfter   time.Duration // silence longer than this
	TrustSilence bool          // whether silence counts at all
	Valve        time.Duration // silence counts whatever TrustSilence says where a lock has been over for longer; 0: never
	ClockStepped bool          // a deadline that has passed proves nothing against a worker that beats
}

// Search selects what a sweep looks at.
type Search struct {
	Signal     Signal
	ByDeadline bool // runs past their deadline; else those within it whose worker is gone
	Except     [][16]byte
	Limit      int
}

// Lost is a live run that nothing will ever update, and why that is known.
type Lost struct {
	Run    runs.Run
	Reason Reason
}

// Survey counts live runs.
type LiveCounts struct {
	Live   int
	Silent int // those that silence alone would settle
}

// Retention says how long history is kept.
type Retention struct {
	Runs      time.Duration
	Bodies    time.Duration
	Audit     time.Duration // zero: for good
	DaysAhead int
}

// Reason says why it is known that nothing will ever update a run.
type Reason string

// The reasons. In each case the lock has run out.
const (
	Deadline Reason = "deadline" // the deadline passed, and 5 s more
	Goodbye  Reason = "goodbye"  // the worker said goodbye, or nobody knows it
	Silent   Reason = "silence"  // the worker has not been heard of for long
	Valve    Reason = "valve"    // the same, and the lock has been over for so long that no gate and no guard counts any more
)

// Reasons returns every reason.
func Reasons() []Reason { return []Reason{Deadline, Goodbye, Silent, Valve} }

// story is what the history says about a run that was settled for a reason.
func (r Reason) errorText() string {
	const unknown = "; whether the target was reached is unknown"
	switch r {
	case Deadline:
		return "nobody ended the run at its deadline" + unknown
	case Goodbye:
		return "the worker went away and left the run" + unknown
	case Silent, Valve:
		return "the worker was lost after the run had started" + unknown
	default:
		panic("zombie: no story of " + string(r))
	}
}
