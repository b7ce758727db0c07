package planner

import (
	"time"

	"rubato/internal/endpoints"
)

// Snapshot is the input of an advisor: the metadata of one endpoint, read in one database snapshot.
// Response bodies are not part of it; the [Toolset] reads them. Texts of users (name, description,
// labels, reasons) are untrusted data. Zero instants and durations mean "none".
type Snapshot struct {
	// Account is charged for the tokens of the analysis.
	Account Account
	// At is the database time of the snapshot.
	At time.Time
	// Version is that of the endpoint's configuration.
	Version int64
	// Trigger is the reason for the analysis.
	Trigger Trigger
	// Key is the user's own key of the endpoint; empty if it has none.
	Key    string
	Name   string
	Method string // HTTP method
	// Policy is the endpoint's description. Its user states there how the endpoint should be tuned.
	Policy string
	Labels map[string]string
	// Siblings share the endpoint's group label; at most [MaxSiblings].
	Siblings []Sibling

	Baseline Baseline
	// Min and Max are the clamps of the interval.
	Min, Max time.Duration
	// Tempo is the current interval between due times, with hint and backoff.
	Tempo time.Duration
	// Usual is the interval between due times without hint and backoff.
	Usual time.Duration
	// Paced means that the tempo follows the rate of change of the responses after every run, so that
	// an advisor must not set it.
	Paced bool
	// ByChanges is the interval that the newest runs would give if the tempo followed the rate of
	// change, and ChangeRate that rate in changes per second. Zero if Paced, or with fewer than
	// [EnoughComparisons].
	ByChanges  time.Duration
	ChangeRate float64
	// AnalysisInterval is the shortest interval between analyses that only the clock triggers.
	// Changes of the endpoint may trigger an analysis sooner.
	AnalysisInterval time.Duration
	NextRunAt        time.Time
	// IntervalHint is in force or has just expired; nil if there is none.
	IntervalHint *endpoints.Hint
	OneShotHint  *endpoints.Hint
	PausedUntil  time.Time
	PauseReason  string
	// RetryAfter is the instant of the target's Retry-After.
	RetryAfter time.Time

	// FailureCount is the number of consecutive failed due times.
	FailureCount int
	Slowdown     Slowdown
	// FleetSlowdown counts the slow endpoints of the installation. It is read only if Slowdown is
	// present.
	FleetSlowdown FleetSlowdown
	// RateLimitInterval is the shortest interval that the target accepts according to its 429
	// responses. It is at least Usual.
	RateLimitInterval time.Duration
	// Health computes the health over 1 h, 4 h and 24 h. It is a function, because not every advisor
	// needs it.
	Health func() []Health
	// Outcomes are the newest runs, newest first, at most [MaxOutcomes].
	Outcomes []Outcome
	// Last is the previous analysis; nil if the endpoint was never analysed.
	Last *Analysis
}

// Limits on the lists of a snapshot, so that the size of a model's prompt is bounded.
const (
	MaxSiblings = 10
	MaxOutcomes = 40
	// EnoughComparisons is the least number of compared answers from which a rate of change follows.
	EnoughComparisons = 3
)

// Account identifies the endpoint, and the tenant that pays for its analysis.
type Account struct {
	TenantID   [16]byte
	EndpointID endpoints.ID
}

// Trigger is the reason for an analysis.
type Trigger string

// The triggers, by descending priority in the queue.
const (
	// FailuresChanged: the endpoint began to fail, its failures lasted much longer than before, or
	// it recovered.
	FailuresChanged Trigger = "failures_changed"
	// GroupChanged: the endpoint has a role, and another endpoint of its group began or ceased to
	// fail.
	GroupChanged Trigger = "group_changed"
	// OutcomeChanged: its runs end with another status than before.
	OutcomeChanged Trigger = "outcome_changed"
	NeverAnalysed  Trigger = "never_analysed"
	// TimeReached: the time that the last analysis asked for.
	TimeReached Trigger = "time_reached"
)

// Baseline is the user's schedule: exactly one of interval and cron.
type Baseline struct {
	Interval time.Duration
	Cron     string
	Timezone string
}

// Health aggregates the runs that ended within a window, at most the newest [HealthSample] of them.
// Percentiles are of the latency of responses.
type Health struct {
	Window    time.Duration
	Runs      int
	Succeeded int
	// Failed counts failed and timed out runs. Runs that infrastructure ended are only in Runs.
	Failed        int
	P50, P95, P99 time.Duration
	// Compared counts the successful answers that could be compared with the one before; Changed
	// counts those of them that differ.
	Compared, Changed int
}

// HealthSample is the maximum number of runs in a health window.
const HealthSample = 2000

// Outcome is the result of one run.
type Outcome struct {
	StartedAt time.Time
	Status    string // such as succeeded or timed_out
	Reason    string
	// StatusCode is that of the response; 0 if none came.
	StatusCode int
	Latency    time.Duration
	Bytes      int64
	// Digest is that of the response body; 0 if it is unknown.
	Digest uint64
	// Source is the governor's source of the due time.
	Source string
}

// Sibling is another endpoint of the same group and tenant.
type Sibling struct {
	ID   endpoints.ID
	Name string
	// Role is the value of the label role; empty if it has none.
	Role         string
	Paused       bool
	FailureCount int
	// Status is that of its newest run; empty if it never ran.
	Status    string
	Tempo     time.Duration
	NextRunAt time.Time
	Health    Health // over 1 h
	Slowdown  Slowdown
}

// Analysis is the stored summary of an analysis.
type Analysis struct {
	At        time.Time
	Advisor   string
	Outcome   Result
	Reasoning string
	// Tainted reports that the session read a sibling's response. That response may have influenced
	// Reasoning, so later advisors are not shown it.
	Tainted bool
}
