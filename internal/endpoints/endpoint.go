// Package endpoints is the domain model of registered HTTP targets: configuration, state, and every
// operation of users and the planner on them. A change of the next due time goes through
// [Endpoint.Replan] or [Endpoint.AfterRun], because only these two ask the governor.
//
// The package reads neither a clock nor a random source, except for [NewID]: callers pass the
// database's time. The database is authoritative. An Endpoint in memory is a snapshot that one
// transaction read.
package endpoints

import (
	"time"

	"rubato/internal/governor"
	"rubato/internal/placement"
	"rubato/internal/schedule"
	"rubato/internal/tempo"
)

// Endpoint is a registered target: its configuration and the state of its schedule.
type Endpoint struct {
	ID ID
	// TenantID scopes every query, because IDs alone do not prove ownership.
	TenantID [16]byte
	// Version counts the edits. It is the ETag of the API.
	Version   int64
	CreatedAt time.Time
	UpdatedAt time.Time
	// ArchivedAt is zero for an endpoint in service.
	ArchivedAt time.Time
	Spec       Spec
	State      State
	// Unrecorded holds the due times that passed without a run, as the current change or finish
	// found them. The store inserts them in the transaction that stores the state, so that no due
	// time is lost.
	Unrecorded []Skip
	// Held holds the kinds of change that the current operation forbids the planner. It is stored
	// like Unrecorded. A kind may occur twice.
	Held []Hold
	// GivenUp means that the finished run was the last of a one-off run that did not succeed, or of
	// a due time of an endpoint with deadLetter. The store inserts its dead letter in the
	// transaction that stores the state.
	GivenUp bool
	// Dropped means that the current change dropped the next attempt of a due time, so that its last
	// run has ended it. GivenUp and ChainStarts are about that run then.
	Dropped bool
	// ChainStarts are the chains that the finished run starts. The store records them like GivenUp.
	ChainStarts []ChainStart
	// Call is nil for a registered endpoint. It is set for a call, and for a detached run, which has
	// the configuration of its endpoint and a schedule of its own.
	Call *Call
	// Ended means that the finished run was the last of a call or a detached run. The store deletes
	// its schedule.
	Ended bool
	// Judged is the finding of noise that the current operation judges; nil: none. It is stored
	// like Unrecorded.
	Judged *NoiseVerdict
	// Shared is the budget that the endpoint shares with others, as the caller found it; nil: none.
	Shared *SharedBudget
	// Cron caches the parsed baseline of Spec for callers that keep it between decisions. If it is
	// nil, the baseline is parsed when needed.
	Cron *schedule.Cron
	// Terse leaves texts out of decisions; see [governor.Input].
	Terse bool
	// Fault is an [errs.Unreadable] if a part of the stored configuration cannot be decoded; Spec
	// lacks that part then. Only lists, bulk look-ups and [Service.Archive] return such an
	// endpoint, because every other read returns the fault as its error.
	Fault error
}

// State is the state of an endpoint's schedule. A zero instant means "none".
type State struct {
	// Token is the claim token of the schedule, which orders decisions and runs.
	Token int64
	Due   Due
	// Anchor is the grid point that the schedule counts from; zero: the endpoint never ran.
	Anchor time.Time
	// LastSlot is the last due time that was served.
	LastSlot time.Time
	// RunsDone is the number of due times with a run since maxRuns was set; zero without maxRuns.
	RunsDone int
	// EndedAt is when maxRuns was reached; zero: it was not.
	EndedAt time.Time
	// FailureCount is the number of due times that failed in a row. The backoff follows from it.
	FailureCount int
	// PausedUntil is [governor.Indefinite] for a pause that only a resume ends.
	PausedUntil time.Time
	PauseReason string
	// UnservedSince is since when no active worker has the required tags; zero: one has. Only reads
	// for users fill it in.
	UnservedSince time.Time
	OneOffs       OneOffs
	// RetryAfter is the wait that the last answer of the target asked for.
	RetryAfter time.Time
	// TargetNext is the instant at which the last answer of the target asked for the next run.
	TargetNext time.Time
	// FreshUntil is the end of the freshness of the last answer of the target.
	FreshUntil time.Time
	// Tempo is nil for an endpoint whose tempo does not follow the rate of change. It is replaced,
	// never changed in place.
	Tempo        *tempo.State
	IntervalHint *Hint
	OneShotHint  *Hint
	// Running is the live run; nil: none.
	Running *Running
	// LastRun is nil for an endpoint that never ran.
	LastRun *LastRun
	// LastCall is the start of the last run that was not skipped, cut to milliseconds. The minimum
	// interval counts from it.
	LastCall time.Time
	// AccountedUntil is a low-water mark: every due time up to it has a run or is recorded as
	// skipped. Zero: LastSlot is the mark.
	AccountedUntil time.Time
}

// Hinted reports whether the state holds a hint. An expired hint counts until a decision drops it.
func (s State) Hinted() bool { return s.IntervalHint != nil || s.OneShotHint != nil }

// UnroutableAt returns since when no active worker has the required tags, if that is long enough at
// an instant that due times are skipped; else zero.
func (s State) UnroutableAt(now time.Time) time.Time {
	if now.Sub(s.UnservedSince) < placement.UnroutableAfter {
		return time.Time{}
	}
	return s.UnservedSince
}

// Due is a planned run.
type Due struct {
	// At is the instant at which the request is sent.
	At time.Time
	// Slot is the due time that the run serves. It is earlier than At for a retry or a late
	// catch-up.
	Slot time.Time
	// Attempt counts from 1.
	Attempt int
	// InfraAttempt is the number of runs of this due time that infrastructure lost and that were
	// repeated. They do not count against the retry policy.
	InfraAttempt int
	Source       governor.Source
}

// first reports whether this is the first run of its due time.
func (d Due) first() bool { return d.Attempt <= 1 && d.InfraAttempt == 0 }

// Hint is a proposal to the governor by the planner or a person: another interval, or one run at an
// instant.
type Hint struct {
	// Interval is set for an interval hint.
	Interval time.Duration
	// At is set for a one-shot hint.
	At        time.Time
	ExpiresAt time.Time
	Reason    string
	Author    string
	CreatedAt time.Time
	// OutageSince is the start of an outage that the interval hint is about; see
	// [governor.IntervalHint]. Zero: an ordinary hint.
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

// Statuses of package runs, repeated here because this package cannot import it.
const (
	succeeded = "succeeded"
	failed    = "failed"
	timedOut  = "timed_out"
	canceled  = "canceled"
	skipped   = "skipped"
)

// failed reports whether the run counts as a failure of the target.
func (r LastRun) failed() bool { return r.Status == failed || r.Status == timedOut }

// Archived reports whether the endpoint is permanently out of service.
func (e *Endpoint) Archived() bool { return !e.ArchivedAt.IsZero() }

// PausedAt reports whether the endpoint is paused at an instant. A pause that ends exactly at now
// is over.
func (e *Endpoint) PausedAt(now time.Time) bool { return e.State.PausedUntil.After(now) }
