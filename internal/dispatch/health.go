package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rubato/internal/telemetry"
)

// minSilence is the shortest time without a claim that says anything: a claim may take a moment even where polls are closer.
const minSilence = time.Second

// Checks returns what must hold while the worker does its work. They look at what the worker remembers and ask nobody.
func (w *Worker) Checks() []telemetry.Check {
	return []telemetry.Check{
		{Name: "draining", Ask: w.notDraining},
		{Name: "claims", Ask: w.claiming},
		{Name: "heartbeats", Ask: w.extending},
		{Name: "pulse", Ask: func(context.Context) error { return w.beats.Pulse().Err() }},
		{Name: "starts", Ask: func(context.Context) error { return w.starts.long("no run could be started") }},
		{Name: "records", Ask: func(context.Context) error { return w.records.long("no run could be recorded") }},
		{Name: "space", Ask: func(context.Context) error { return w.space.long("the database has had no room for new data") }},
	}
}

func (w *Worker) notDraining(context.Context) error {
	if w.draining.Load() {
		return errors.New("the worker is draining")
	}
	return nil
}

// claiming requires that the database answered a claim within the last three polls.
func (w *Worker) claiming(context.Context) error {
	if _, known := w.clock.now(); !known {
		return errors.New("the database has not answered a claim yet")
	}
	limit := max(3*w.cfg.PollInterval, minSilence)
	if w.clock.age(w.lastSeen.Load()) > limit {
		return fmt.Errorf("no claim has succeeded for %s", limit)
	}
	return nil
}

// extending requires that no heartbeat is late by more than half a lock: what is left of the locks then is soon too little.
func (w *Worker) extending(context.Context) error {
	limit := w.cfg.Rules.LockTTL / 2
	if w.beats.Lag() > limit {
		return fmt.Errorf("no heartbeat has extended the locks for %s", limit)
	}
	return nil
}
