package stats

import "time"

// MaxRuns is the maximum number of runs that a figure or series reads.
const MaxRuns = 20_000

// MaxBadRuns is the number of newest runs per bad status (failed, timed out, lost) in which
// incidents are searched. A run lasts at most half an hour, so up to five failures a second every
// run that just ended is included.
const MaxBadRuns = 10_000

// Activity is the console's view of a tenant: its newest runs in time buckets, and its incidents.
type Activity struct {
	At        time.Time
	Endpoints int64    // not archived; counted up to [MaxEndpoints]
	Buckets   []Bucket // non-empty buckets, oldest first
	Step      time.Duration
	Incidents []Incident // lost runs first, then the last to end
	Lost      int64      // runs of the last day; counted up to [MaxBadRuns]
}

// MaxEndpoints is the limit of the endpoint count.
const MaxEndpoints = 100_000

// Bucket counts the runs that ended in a period, by result.
type Bucket struct {
	At        time.Time // start of the bucket
	Succeeded int64
	Failed    int64 // timed out too
	Lost      int64
	Other     int64 // skipped or canceled
	LagP50    time.Duration
	LagP99    time.Duration // from the due time to the start
}

// Incident is a group of bad runs of an endpoint in the last day with equal status and reason. The
// other fields are those of its last run.
type Incident struct {
	Runs       int64 // bad runs; of the newest [MaxBadRuns] per status
	More       bool  // there may be more than were read
	RunID      [16]byte
	EndpointID [16]byte
	Name       string // of the endpoint
	Status     string
	Reason     string
	StatusCode int       // 0: no answer
	At         time.Time // when the run ended
	Error      string
}

// RunSample is one run of a sparkline.
type RunSample struct {
	Status       string
	ScheduledFor time.Time
	StartedAt    time.Time
	FinishedAt   time.Time
}

// Change is a decision about an endpoint other than a finish.
type Change struct {
	At        time.Time
	Cause     string // such as pause, hint, edit
	Author    string
	NextRunAt time.Time
	Source    string
	// PausedUntil is the end of the pause in force after the change; zero: none.
	PausedUntil time.Time
}

// Hint is a current or past hint.
type Hint struct {
	Kind      string // interval or one-shot
	Interval  time.Duration
	RunAt     time.Time
	CreatedAt time.Time
	EndedAt   time.Time // end of the hint, past or future
	Reason    string
	Author    string
}

// History holds the data of an endpoint's charts and tables, newest first.
type History struct {
	At      time.Time
	Changes []Change
	Hints   []Hint
}

// DecisionBasis is the input of the endpoint's next decision that the API does not return.
type DecisionBasis struct {
	Anchor     time.Time // grid point of the schedule; zero: it never ran
	RetryAfter time.Time // Retry-After of the target; zero: none
	TargetNext time.Time // Rubato-Next of the target; zero: none
	FreshUntil time.Time // end of the freshness of the last answer; zero: unknown
}

// GuaranteeStats counts violations of the guarantees in a tenant's newest runs.
type GuaranteeStats struct {
	At          time.Time
	Since       time.Time // due time of the oldest run
	Runs        int64
	Early       int64 // started more than 50 ms before their due time
	Doubled     int64 // runs of due times that succeeded more than once
	Overlapping int64 // started while the previous run was live, unless its worker was lost
	Lost        int64
	SkippedDue  int64 // recorded skips
	Stuck       int64 // live runs with a lock that expired longer ago than the sweeper needs
	LagP50      time.Duration
	LagP99      time.Duration // of first attempts
}
