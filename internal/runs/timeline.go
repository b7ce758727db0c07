package runs

import (
	"cmp"
	"slices"
	"time"
)

// EventKind says what happened to a run.
type EventKind string

// The kinds. Claimed, started and finished follow from the run itself; the others are kept as rows of run_events, whose check names them.
const (
	EventClaimed         EventKind = "claimed"          // a worker took the due time
	EventStarted         EventKind = "started"          // the start was committed; the request left at once after
	EventCancelRequested EventKind = "cancel_requested" // somebody asked for the end of the run
	EventSettled         EventKind = "settled"          // the sweeper ended the run for a worker that was gone
	EventFinished        EventKind = "finished"         // the run is over, and what follows it was decided
	EventLateResult      EventKind = "late_result"      // an answer came after the run had been settled; it changed nothing
)

// EventKinds returns every kind, in the order in which a run meets them: a request for its end or a settlement needs the live run, and
// only an answer to a run that is over is late.
func EventKinds() []EventKind {
	return []EventKind{EventClaimed, EventStarted, EventCancelRequested, EventSettled, EventFinished, EventLateResult}
}

// MaxEvents bounds the events that are read of one run. A run has a handful; only answers that come again and again have no bound of
// their own.
const MaxEvents = 1000

// Event is something that happened to a run. Fields that its kind does not have are zero.
type Event struct {
	At         time.Time // database time; the end of a run is its start and what its worker measured, some ms early at worst
	Kind       EventKind
	Author     string   // cancel_requested: the name of the key; settled: the sweeper
	Why        string   // cancel_requested: what the author gave as a reason; settled: what spoke for the run being lost
	WorkerID   [16]byte // who did it, or sent the late answer; settled: who is gone
	ClaimToken int64    // claimed, late_result: the fence
	Status     Status   // finished, settled, late_result
	Reason     Reason   // likewise
	StatusCode int      // finished, late_result: of the target's answer
	Error      string   // finished
	Decision   Decision // finished: what follows
}

// Story puts together what happened to a run, in the order in which it happened: what follows from the run, and the events that were
// kept. Kinds come before instants, since two clocks do not agree to the millisecond. Nothing happened to due times that passed without
// a run: their story is empty.
func Timeline(run Run, kept []Event) []Event {
	var story []Event
	if run.Outcome.Reason == Withdrawn { // No worker ever had it.
		run.ClaimedAt, run.StartedAt = time.Time{}, time.Time{}
	}
	if !run.ClaimedAt.IsZero() {
		story = append(story, Event{At: run.ClaimedAt, Kind: EventClaimed, WorkerID: run.WorkerID, ClaimToken: run.ClaimToken})
	}
	if !run.StartedAt.IsZero() {
		story = append(story, Event{At: run.StartedAt, Kind: EventStarted, WorkerID: run.WorkerID})
	}
	if o := run.Outcome; o.Status.Terminal() && !run.FinishedAt.IsZero() && run.Skipped == nil {
		story = append(story, Event{
			At: run.FinishedAt, Kind: EventFinished, WorkerID: run.WorkerID, Status: o.Status, Reason: o.Reason,
			StatusCode: o.StatusCode, Error: o.Error, Decision: run.Decision,
		})
	}
	story = append(story, kept...)
	order := EventKinds()
	slices.SortStableFunc(story, func(a, b Event) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind)), a.At.Compare(b.At))
	})
	return story
}
