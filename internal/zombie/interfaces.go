package zombie

import (
	"context"
	"time"

	"rubato/internal/runs"
)

// Store is the sweeper's access to the database.
type Store interface {
	Election
	Workers
	Runs
	Locks
	History
}

// Election is the leader election of the sweepers.
type Election interface {
	// Clock returns the database's time.
	Clock(ctx context.Context) (time.Time, error)
	// Lead acquires the leader lock and runs lead, unless another sweeper of this database holds
	// the lock. It reports whether lead ran. The context of lead ends if the lock is lost.
	Lead(ctx context.Context, lead func(context.Context) error) (bool, error)
}

// Workers handles silent workers, and endpoints that no worker serves.
type Workers interface {
	// TakeOver frees claims of silent workers that they never started, and returns their number.
	TakeOver(ctx context.Context, s TakeOverFilter) (int, error)
	// Retire marks workers as gone that have been silent for so long and have no live run, and
	// returns their number.
	Retire(ctx context.Context, silent time.Duration) (int, error)
	// Unserved returns the tag sets that no active worker has served for a time. It returns none
	// while no worker is active.
	Unserved(ctx context.Context, over time.Duration) ([]TagSet, error)
	// SkipUnserved records the due times of endpoints with these tag sets as skipped and plans the
	// next ones, up to limit for each lane. It returns their number. One-off runs are skipped after
	// their deadline only.
	SkipUnserved(ctx context.Context, sets []TagSet, limit int) (int, error)
}

// Runs handles lost runs.
type Runs interface {
	// ListLost returns lost live runs, the longest expired first.
	ListLost(ctx context.Context, q Search) ([]Lost, error)
	// Settle ends a lost run, unless the signal no longer applies to it, and decides the next due
	// time like any finish. It reports whether it did.
	Settle(ctx context.Context, signal Signal, run runs.Run) (bool, error)
	// ListExpired returns suspended runs past the end of their wait, the longest over first, and
	// those that a user asked to cancel.
	ListExpired(ctx context.Context, except [][16]byte, limit int) ([]Lost, error)
	// Expire ends such a run with its outcome, unless a report ended or extended it, and decides
	// the next due time like any finish. It reports whether it did.
	Expire(ctx context.Context, run runs.Run) (bool, error)
	// CountLive counts live runs.
	CountLive(ctx context.Context, staleAfter time.Duration) (LiveCounts, error)
}

// Locks handles locks that expired or lie too far in the future.
type Locks interface {
	// MarkLocks finds the instant before which no lock ends, except the waits of suspended runs.
	// ListLost, CountLive and FreeStuck then scan from it.
	MarkLocks(ctx context.Context) error
	// ClampClaims shortens up to limit locks of claims that end later than any lock granted now,
	// and returns their number.
	ClampClaims(ctx context.Context, ttl time.Duration, limit int) (int, error)
	// ClampRuns does the same for live runs and heartbeats.
	ClampRuns(ctx context.Context, ttl time.Duration) (int, error)
	// FreeStuck frees up to limit claims with locks that expired at least over ago and that no
	// worker took. It returns their number.
	FreeStuck(ctx context.Context, over time.Duration, limit int) (int, error)
}

// History handles the day partitions of the history.
type History interface {
	// KeepHistory creates coming days and drops those past their retention; it returns the number
	// of dropped days.
	KeepHistory(ctx context.Context, r Retention) (int, error)
}

// TagSet is a tag set that no active worker serves.
type TagSet struct {
	ID       int32
	Required []string
	// Missing are those of Required that no active worker has.
	Missing []string
}

// TakeOverFilter selects the claims to free.
type TakeOverFilter struct {
	For time.Duration // silence of the worker
	// Reach selects claims with locks that end within it, which bounds the index scan. No lock is
	// longer.
	Reach time.Duration
}

// Signal defines the signals that a worker is gone.
type Signal struct {
	StaleAfter   time.Duration // silence that counts
	TrustSilence bool          // silence counts at all
	// Valve is how long after the end of its lock a run is settled even without TrustSilence; 0:
	// never.
	Valve time.Duration
	// ClockStepped excludes passed deadlines of workers that send heartbeats.
	ClockStepped bool
}

// Search selects lost runs.
type Search struct {
	Signal Signal
	// ByDeadline selects runs past their deadline; otherwise runs of lost workers within it.
	ByDeadline bool
	Except     [][16]byte
	Limit      int
}

// Lost is a live run that no worker will update, and the reason to settle it.
type Lost struct {
	Run    runs.Run
	Reason Reason
}

// LiveCounts is the number of live runs.
type LiveCounts struct {
	Live   int
	Silent int // runs that silence alone would settle
}

// Retention holds the retention times of the history.
type Retention struct {
	Runs      time.Duration
	Bodies    time.Duration
	Audit     time.Duration // zero: unlimited
	Letters   time.Duration // of dead letters; zero: unlimited
	DaysAhead int
}

// Reason is the signal by which a run was settled.
type Reason string

// The reasons. In each case the lock, or the wait of a suspended run, has expired.
const (
	Deadline Reason = "deadline" // the deadline passed over 5 s ago
	Goodbye  Reason = "goodbye"  // the worker stopped or is unknown
	Silent   Reason = "silence"  // the worker has been silent for long
	Valve    Reason = "valve"    // the same, and the lock expired so long ago that gate and guard no longer apply
	Expired  Reason = "expired"  // nothing reported the end of a suspended run in time
	Canceled Reason = "canceled" // a user canceled a suspended run
)

// Reasons returns every reason.
func Reasons() []Reason { return []Reason{Deadline, Goodbye, Silent, Valve, Expired, Canceled} }

// errorText is the error text of a run that was settled for a reason.
func (r Reason) errorText() string {
	const unknown = "; whether the target was reached is unknown"
	switch r {
	case Deadline:
		return "no worker ended the run at its deadline" + unknown
	case Goodbye:
		return "the worker went away and left the run" + unknown
	case Silent, Valve:
		return "the worker was lost after the run had started" + unknown
	case Expired:
		return "the target answered 202, and neither a callback nor its status URL reported the end of the run in time"
	case Canceled:
		return "the target answered 202, and a user canceled the run before its end; whether the target stopped is unknown"
	default:
		panic("zombie: no story of " + string(r))
	}
}
