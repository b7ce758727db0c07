package claims

import (
	"fmt"
	"log/slog"
	"sync"
)

// weakAfter is the number of consecutive failures that stop a worker from claiming. One may be a
// broken connection, two a restart.
const weakAfter = 3

// HeartbeatKind is a kind of heartbeat of a worker.
type HeartbeatKind string

// The kinds of heartbeat.
const (
	// RunHeartbeat extends the locks of runs. It is sent only while there are such runs.
	RunHeartbeat HeartbeatKind = "heartbeat of runs"
	// PresenceHeartbeat updates the presence in the worker's row.
	PresenceHeartbeat HeartbeatKind = "presence of the worker"
)

// HeartbeatGate decides by the heartbeats of a worker whether the worker may claim
// more. Other workers soon consider a worker without heartbeats dead; then its claims are taken
// over and its runs are lost. It is safe for concurrent use.
type HeartbeatGate struct {
	logger *slog.Logger

	// mu guards failed, the number of consecutive failures by kind.
	mu     sync.Mutex
	failed map[HeartbeatKind]int
}

// NewHeartbeatGate returns an open gate.
func NewHeartbeatGate(logger *slog.Logger) *HeartbeatGate {
	return &HeartbeatGate{logger: logger, failed: map[HeartbeatKind]int{}}
}

// Beat records the result of a heartbeat. Three consecutive failures of one kind close the gate
// until a heartbeat of that kind succeeds.
func (g *HeartbeatGate) Beat(sign HeartbeatKind, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil {
		if g.failed[sign] >= weakAfter {
			g.logger.Info("heartbeats succeed again; claiming resumes", "sign", string(sign))
		}
		delete(g.failed, sign)
		return
	}
	g.failed[sign]++
	if g.failed[sign] == weakAfter {
		g.logger.Error("heartbeats fail; no more claims until one succeeds", "sign", string(sign), "error", err)
	}
}

// Err returns nil while the gate is open, otherwise an error that names the failing heartbeat.
func (g *HeartbeatGate) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, sign := range []HeartbeatKind{PresenceHeartbeat, RunHeartbeat} {
		if n := g.failed[sign]; n >= weakAfter {
			return fmt.Errorf("the %s has failed %d times in a row", sign, n)
		}
	}
	return nil
}
