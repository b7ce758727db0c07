package endpoints

import (
	"time"

	"rubato/internal/governor"
)

// Planned is one due time of a preview.
type Planned struct {
	At     time.Time
	Source governor.Source
	// Note describes the effect of a clock change on the due time; empty: none.
	Note string
}

// Preview returns at most the next n due times on the assumption that each run succeeds at once. It
// is empty for an endpoint that is archived or indefinitely paused. The endpoint is not changed.
func (e *Endpoint) Preview(now time.Time, n int) ([]Planned, error) {
	if e.Archived() {
		return nil, nil
	}
	probe := *e
	if probe.State.Running != nil { // The finish of the live run decides, so assume that it ends now.
		if _, err := probe.endNow(now); err != nil {
			return nil, err
		}
	}
	cron, err := e.Spec.ParseCron(e.ID)
	if err != nil {
		return nil, err
	}
	var list []Planned
	for len(list) < n && probe.State.Due.At.Before(indefinitely) {
		due := probe.State.Due
		next := Planned{At: due.At, Source: due.Source}
		if cron != nil {
			next.Note = cron.Note(due.Slot)
		}
		list = append(list, next)
		if due.Source == governor.SourceManual { // The rest of the queue is not loaded.
			probe.State.OneOffs = OneOffs{InFlight: probe.State.OneOffs.Next}
		}
		at := laterOf(now, due.At)
		if _, err := probe.AfterRun(at, Finished{
			Slot:         due.Slot,
			Attempt:      due.Attempt,
			InfraAttempt: due.InfraAttempt,
			StartedAt:    at,
			FinishedAt:   at,
			Verdict:      Success,
			Source:       due.Source,
		}); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// endNow ends the live run with a success. Call it on a copy only.
func (e *Endpoint) endNow(now time.Time) (Recorded, error) {
	run := *e.liveRun()
	run.FinishedAt, run.Verdict = now, Success
	return e.AfterRun(now, run)
}
