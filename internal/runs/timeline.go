package runs

import (
	"cmp"
	"slices"
	"time"
)

// EventKind is the kind of an event of a run.
type EventKind string

// The kinds. Claimed, started and finished are derived from the run. The others are rows of
// run_events; the check constraint of that table lists them.
const (
	EventClaimed         EventKind = "claimed"          // a worker claimed the due time
	EventStarted         EventKind = "started"          // the start was committed; the request was sent right after
	EventSuspended       EventKind = "suspended"        // the target answered 202; the run waits for its end
	EventCancelRequested EventKind = "cancel_requested" // a user asked to cancel the run
	EventSettled         EventKind = "settled"          // the sweeper settled the run of a lost worker
	EventFinished        EventKind = "finished"         // the run ended, and the next due time was decided
	EventChainStarted    EventKind = "chain_started"    // the outcome of the run started a chain
	EventChainRefused    EventKind = "chain_refused"    // the outcome of the run should have started a chain, which was refused
	EventLateResult      EventKind = "late_result"      // a response or report arrived after the end; it changed nothing
)

// EventKinds returns every kind in the order of a run's life. Cancel requests and settlements need
// a live run; a late result needs a settled one.
func EventKinds() []EventKind {
	return []EventKind{EventClaimed, EventStarted, EventSuspended, EventCancelRequested, EventSettled, EventFinished, EventChainStarted, EventChainRefused, EventLateResult}
}

// MaxEvents limits the events that are read of one run. Only late results have no bound of their
// own.
const MaxEvents = 1000

// Event is an event in the life of a run. Fields that do not apply to its kind are zero.
type Event struct {
	// At is database time. The end of a run is computed from its start and the worker's
	// measurement, so it may be some milliseconds early.
	At         time.Time
	Kind       EventKind
	Author     string   // cancel_requested: name of the API key; settled: the sweeper
	Why        string   // cancel_requested: the author's reason; settled: the signal; suspended: the status URL; chain_started, chain_refused: the chain and its run, or why not
	WorkerID   [16]byte // worker that acted or sent the late result; settled: the lost worker
	ClaimToken int64    // claimed, late_result: the fencing token
	Status     Status   // finished, settled, late_result
	Reason     Reason   // likewise
	StatusCode int      // finished, late_result: of the response
	Error      string   // finished
	Decision   Decision // finished: next due time
}

// Timeline returns the events of a run in order: those derived from the run, and the stored ones.
// Kinds are compared before instants, because two clocks may differ by milliseconds. The timeline
// of skipped due times is empty, and that of an unclaimed run has only its end.
func Timeline(run Run, kept []Event) []Event {
	var story []Event
	if !run.ClaimedAt.IsZero() {
		story = append(story, Event{
			At:         run.ClaimedAt,
			Kind:       EventClaimed,
			WorkerID:   run.WorkerID,
			ClaimToken: run.ClaimToken,
		})
	}
	if !run.StartedAt.IsZero() {
		story = append(story, Event{
			At:       run.StartedAt,
			Kind:     EventStarted,
			WorkerID: run.WorkerID,
		})
	}
	if o := run.Outcome; o.Status.Terminal() && !run.FinishedAt.IsZero() && run.Skipped == nil {
		story = append(story, Event{
			At:         run.FinishedAt,
			Kind:       EventFinished,
			WorkerID:   run.WorkerID,
			Status:     o.Status,
			Reason:     o.Reason,
			StatusCode: o.StatusCode,
			Error:      o.Error,
			Decision:   run.Decision,
		})
	}
	story = append(story, kept...)
	order := EventKinds()
	slices.SortStableFunc(story, func(a, b Event) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind)), a.At.Compare(b.At))
	})
	return story
}
