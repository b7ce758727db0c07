package stats

import "time"

// MaxRuns is how many runs one figure or series looks at.
const MaxRuns = 20_000

// MaxBadRuns is how many runs of each way not to go well (failed, timed out, lost) incidents are looked for among, the newest due time
// first. A run lasts half an hour at most, so up to five failures a second a run that has just ended is still among them.
const MaxBadRuns = 10_000

// Activity is the newest runs of a tenant, in buckets of time, and its incidents. The console draws it.
type Activity struct {
	At        time.Time
	Endpoints int64    // in service; counted up to [MaxEndpoints]
	Buckets   []Bucket // stretches of time with runs, oldest first
	Step      time.Duration
	Incidents []Incident // lost runs first, then the last to end
	Lost      int64      // runs of the last day; counted up to [MaxBadRuns]
}

// MaxEndpoints is how many endpoints an overview counts.
const MaxEndpoints = 100_000

// Bucket is what became of runs that ended in a stretch of time.
type Bucket struct {
	At        time.Time // its begin
	Succeeded int64
	Failed    int64 // timed out too
	Lost      int64
	Other     int64 // skipped or canceled
	LagP50    time.Duration
	LagP99    time.Duration // from the due time to the start
}

// Incident is what an endpoint's runs of the last day have in common that did not go well: how they ended and why. The run named is the
// last of them to end.
type Incident struct {
	Runs       int64 // that did not go well; of the newest [MaxBadRuns] of each way
	More       bool  // there may be more of them than were looked at
	RunID      [16]byte
	EndpointID [16]byte
	Name       string // of the endpoint
	Status     string
	Reason     string
	StatusCode int       // 0: no answer
	At         time.Time // when the run ended
	Error      string
}

// Spark is one run of the small pictures in lists.
type RunSample struct {
	Status       string
	ScheduledFor time.Time
	StartedAt    time.Time
	FinishedAt   time.Time
}

// Change is a decision about an endpoint that was no finish.
type Change struct {
	At        time.Time
	Cause     string // such as pause, hint, edit
	Author    string
	NextRunAt time.Time
	Source    string
	// PausedUntil is when the pause ends that was in force after the change; zero: none.
	PausedUntil time.Time
}

// Hint is a hint in force or over.
type Hint struct {
	Kind      string // interval or one-shot
	Interval  time.Duration
	RunAt     time.Time
	CreatedAt time.Time
	EndedAt   time.Time // when it stopped to hold, or will
	Reason    string
	Author    string
}

// History is what the charts and tables of one endpoint draw beside its runs. Lists are newest first.
type History struct {
	At      time.Time
	Changes []Change
	Hints   []Hint
}

// Grounds is what the next decision about an endpoint counts from, beside what the API tells of it.
type DecisionBasis struct {
	Anchor     time.Time // the point that the schedule counts from; zero: it never ran
	RetryAfter time.Time // what the target asked to wait for; zero: for nothing
}

// Proof is what the newest runs of a tenant say about the guarantees.
type GuaranteeStats struct {
	At          time.Time
	Since       time.Time // the due time of the oldest run that was looked at
	Runs        int64
	Early       int64 // started more than 50 ms before their due time
	Doubled     int64 // runs of due times that succeeded more than once
	Overlapping int64 // started while the run before was open, unless that one's worker was lost
	Lost        int64
	SkippedDue  int64 // due times that passed without a run, each on record
	Stuck       int64 // live runs whose lock has been over for longer than the sweeper takes
	LagP50      time.Duration
	LagP99      time.Duration // of first attempts
}
