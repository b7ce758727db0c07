package planner

import (
	"time"

	"rubato/internal/endpoints"
)

// Case is what an advisor is asked about: one endpoint as one moment of the database saw it. It holds metadata only; what the target
// answered is behind the [Desk]. Texts of users (name, description, labels, reasons) are data like any other. Zero instants and
// durations mean "none".
type Snapshot struct {
	Account  Account   // who is charged
	At       time.Time // the moment, in database time
	Version  int64     // of the configuration
	Trigger  Trigger   // why it is asked now
	Key      string    // the user's own key; empty: none
	Name     string
	Method   string            // of its request
	Policy   string            // the endpoint's description: what its user asks of whoever steers it
	Labels   map[string]string // of the endpoint
	Siblings []Sibling         // endpoints with the same group label, at most [MaxSiblings]

	Baseline         Baseline
	Min, Max         time.Duration // the clamps
	Tempo            time.Duration // between due times as things stand
	Usual            time.Duration // between due times without hint and backoff
	AnalysisInterval time.Duration // that the clock alone makes it be analysed at most: sooner only where something happens
	NextRunAt        time.Time
	IntervalHint     *endpoints.Hint // in force or just expired; nil: none
	OneShotHint      *endpoints.Hint
	PausedUntil      time.Time
	PauseReason      string
	RetryAfter       time.Time // what the target asked to wait for

	FailureCount      int // failed due times in a row
	Slowdown          Slowdown
	FleetSlowdown     FleetSlowdown // how many endpoints of the installation are under strain at once; read only where Strain is present
	RateLimitInterval time.Duration // the shortest interval that the target accepts by its answers of 429: at least Usual
	Health            []Health      // over 1 h, 4 h and 24 h
	Outcomes          []Outcome     // the newest runs, newest first, at most [MaxOutcomes]
	Last              *Analysis     // the analysis before this one; nil: never analysed
}

// The bounds of a case, so that whoever asks a model knows what it costs at most.
const (
	MaxSiblings = 10
	MaxOutcomes = 40
)

// Account is who is charged for an analysis.
type Account struct {
	TenantID   [16]byte
	EndpointID endpoints.ID
}

// Trigger says why an endpoint is analysed.
type Trigger string

// The triggers, the most valuable first.
const (
	FailuresChanged Trigger = "failures_changed" // it began to fail, failed much longer than before, or recovered
	GroupChanged    Trigger = "group_changed"    // it has a role, and another endpoint of its group began or ceased to fail
	OutcomeChanged  Trigger = "outcome_changed"  // it ends in another status than it did
	NeverAnalysed   Trigger = "never_analysed"
	TimeReached     Trigger = "time_reached" // the time that the last analysis asked for
)

// Baseline is the schedule that the user asked for: exactly one of interval and cron.
type Baseline struct {
	Interval time.Duration
	Cron     string
	Timezone string // of the cron
}

// Health sums up the runs of an endpoint that ended within a window. It looks at the newest [HealthSample] of them at most. Latency is
// that of answers.
type Health struct {
	Window        time.Duration
	Runs          int
	Succeeded     int
	Failed        int // failed or timed out; what infrastructure ended is in Runs alone
	P50, P95, P99 time.Duration
	Changes       Changes
}

// HealthSample bounds the runs that a window of health is made of.
const HealthSample = 2000

// Outcome is how one run ended.
type Outcome struct {
	StartedAt  time.Time
	Status     string // of the run, such as succeeded or timed_out
	Reason     string // of the status
	StatusCode int    // of the answer; 0: none came
	Latency    time.Duration
	Bytes      int64
	Digest     uint64 // of the answer's body; 0: none is known
	Source     string // what set its due time
}

// Sibling is another endpoint of the same group and tenant.
type Sibling struct {
	ID           endpoints.ID
	Name         string
	Role         string // the value of its label role; empty: none
	Paused       bool
	FailureCount int
	Status       string // of its newest run; empty: it never ran
	Tempo        time.Duration
	NextRunAt    time.Time
	Health       Health // over 1 h
	Slowdown     Slowdown
}

// Analysis is what is remembered of an analysis.
type Analysis struct {
	At        time.Time
	Advisor   string
	Outcome   Result
	Reasoning string
	Tainted   bool // it read an answer of a sibling, which may have written the reasoning
}
