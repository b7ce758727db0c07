// Package endpoints knows the registered HTTP target: what may be configured, what state it is in, and everything that a user
// or the planner may do to it. Whatever changes the next due time goes through [Endpoint.Replan] or [Endpoint.AfterRun], and
// through them through the governor.
//
// The package reads no clock and no random source but for [NewID]: the database's time comes in as an argument. The database is
// authoritative; an Endpoint in memory is what a transaction saw.
package endpoints

import (
	"time"

	"rubato/internal/governor"
	"rubato/internal/schedule"
)

// Endpoint is a registered target: its configuration and where its schedule stands.
type Endpoint struct {
	ID         ID
	TenantID   [16]byte
	Version    int64 // counts the edits; the ETag
	CreatedAt  time.Time
	UpdatedAt  time.Time
	ArchivedAt time.Time // zero: not archived
	Spec       Spec
	State      State
	// Unrecorded is due times that the change or finish at hand found to have passed without a run: whoever stores what it left
	// also records them, in the same transaction.
	Unrecorded []Skip
	// Held is what the change at hand forbids the planner: stored like Unrecorded, in the same transaction. A kind may be there twice.
	Held []Hold
	// Cron is the parsed baseline of Spec, for callers that keep it between decisions; nil: parsed when needed.
	Cron *schedule.Cron
	// Fault is an [errs.Unreadable] if a part of the stored configuration cannot be decoded; Spec lacks that part then. Only lists,
	// bulk look-ups and [Service.Archive] meet such an endpoint, because every other read returns the fault as its error.
	Fault error
}

// State is where an endpoint's schedule stands. Zero instants mean "none".
type State struct {
	Due          Due
	Anchor       time.Time // the grid point that the schedule counts from; zero: never run
	LastSlot     time.Time // the last due time that was served
	FailureCount int       // failed due times in a row
	PausedUntil  time.Time // [governor.Indefinite]: until somebody resumes
	PauseReason  string
	OneOffs      OneOffs
	RetryAfter   time.Time // what the target asked for when it last answered
	IntervalHint *Hint
	OneShotHint  *Hint
	Running      *Running  // the live run; nil: none
	LastRun      *LastRun  // nil: never ran
	LastCall     time.Time // the start of the last run that was not skipped, cut to milliseconds: the minimum counts from it
	// AccountedUntil is the instant up to which every due time has a run or is recorded as skipped; zero: up to LastSlot.
	AccountedUntil time.Time
}

// Hinted reports whether hints may be in force: one that is there and has expired counts until a decision forgets it.
func (s State) Hinted() bool { return s.IntervalHint != nil || s.OneShotHint != nil }

// Due is a planned run.
type Due struct {
	At      time.Time // when to send it
	Slot    time.Time // the due time that it stands for; earlier than At for a retry or a late catch-up
	Attempt int       // counted from 1
	// InfraAttempt is how many runs of the due time infrastructure lost that were tried again beside the attempts of the retry policy.
	InfraAttempt int
	Source       governor.Source
}

// first reports whether this is the first run of its due time.
func (d Due) first() bool { return d.Attempt <= 1 && d.InfraAttempt == 0 }

// Hint is a proposal to the governor, by the planner or a person: another interval, or one run at an instant.
type Hint struct {
	Interval  time.Duration // of an interval hint
	At        time.Time     // of a one-shot hint
	ExpiresAt time.Time
	Reason    string
	Author    string
	CreatedAt time.Time
	// OutageSince makes an interval hint one for an outage that began then: see [governor.IntervalHint]. Zero: an ordinary hint.
	OutageSince time.Time
}

// Running is the live run of an endpoint.
type Running struct {
	Slot         time.Time
	Attempt      int
	InfraAttempt int
	StartedAt    time.Time
}

// LastRun is a summary of the newest finished run.
type LastRun struct {
	Slot         time.Time
	Attempt      int
	InfraAttempt int
	Status       string
	StartedAt    time.Time
	FinishedAt   time.Time
}

// Statuses of package runs, which cannot be asked from here.
const (
	failed   = "failed"
	timedOut = "timed_out"
	skipped  = "skipped"
)

// failed reports whether the run counts as a failure of the target.
func (r LastRun) failed() bool { return r.Status == failed || r.Status == timedOut }

// Archived reports whether the endpoint is out of service for good.
func (e *Endpoint) Archived() bool { return !e.ArchivedAt.IsZero() }

// PausedAt reports whether the endpoint is paused at an instant. A pause that ends exactly now is over.
func (e *Endpoint) PausedAt(now time.Time) bool { return e.State.PausedUntil.After(now) }
