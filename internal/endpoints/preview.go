package endpoints

import (
	"time"

	"rubato/internal/governor"
)

// Planned is one due time of a preview.
type Planned struct {
	At     time.Time
	Source governor.Source
	Note   string // what a clock change does to it, in words; empty where none does
}

// Preview returns the next n due times, at most, were each run to succeed at once. It is empty for an endpoint that is archived,
// or paused until somebody resumes. The endpoint is left as it is.
func (e *Endpoint) Preview(now time.Time, n int) ([]Planned, error) {
	if e.Archived() {
		return nil, nil
	}
	probe := *e
	if probe.State.Running != nil { // What follows is decided at its finish: assume that it ends now.
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
		if due.Source == governor.SourceManual { // The ones behind it are not known here.
			probe.State.OneOffs = OneOffs{InFlight: probe.State.OneOffs.Next}
		}
		at := laterOf(now, due.At)
		if _, err := probe.AfterRun(at, Finished{
			Slot: due.Slot, Attempt: due.Attempt, InfraAttempt: due.InfraAttempt, StartedAt: at, Verdict: Success, Source: due.Source,
		}); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// endNow ends the live run with a success. Only what was copied to see what would follow calls it.
func (e *Endpoint) endNow(now time.Time) (Recorded, error) {
	run := *e.liveRun()
	run.Verdict = Success
	return e.AfterRun(now, run)
}
