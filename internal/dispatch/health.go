package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rubato/internal/telemetry"
)

// minSilence is the shortest time without a successful claim that counts as a fault, because a
// claim may take a moment even if the poll interval is shorter.
const minSilence = time.Second

// Checks returns the health checks of the worker. They read only its memory, so that a probe causes
// no query.
func (w *Worker) Checks() []telemetry.Check {
	return []telemetry.Check{
		{Name: "draining", Ask: w.notDraining},
		{Name: "claims", Ask: w.claiming},
		{Name: "heartbeats", Ask: w.extending},
		{Name: "heartbeat_writes", Ask: func(context.Context) error { return w.beats.Gate().Err() }},
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

// claiming requires a successful claim within the last three poll intervals.
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

// extending requires that the heartbeat lag is at most half a lock, because the rest of the lock
// would soon be too short.
func (w *Worker) extending(context.Context) error {
	limit := w.cfg.Rules.LockTTL / 2
	if w.beats.Lag() > limit {
		return fmt.Errorf("no heartbeat has extended the locks for %s", limit)
	}
	return nil
}
