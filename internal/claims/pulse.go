package claims

import (
	"fmt"
	"log/slog"
	"sync"
)

// weakAfter is the number of consecutive failures that stop a worker from claiming. One may be a
// broken connection, two a restart.
const weakAfter = 3

// Sign is a kind of heartbeat of a worker.
type Sign string

// The kinds of heartbeat.
const (
	// SignOfRuns extends the locks of runs. It is sent only while there are such runs.
	SignOfRuns Sign = "heartbeat of runs"
	// SignOfWorker updates the presence in the worker's row.
	SignOfWorker Sign = "presence of the worker"
)

// Pulse is a health gate: it decides by the heartbeats of a worker whether the worker may claim
// more. Other workers soon consider a worker without heartbeats dead; then its claims are taken
// over and its runs are lost. It is safe for concurrent use.
type Pulse struct {
	logger *slog.Logger

	// mu guards failed, the number of consecutive failures by kind.
	mu     sync.Mutex
	failed map[Sign]int
}

// NewPulse returns an open gate.
func NewPulse(logger *slog.Logger) *Pulse { return &Pulse{logger: logger, failed: map[Sign]int{}} }

// Beat records the result of a heartbeat. Three consecutive failures of one kind close the gate
// until a heartbeat of that kind succeeds.
func (p *Pulse) Beat(sign Sign, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		if p.failed[sign] >= weakAfter {
			p.logger.Info("signs of life arrive again; claiming goes on", "sign", string(sign))
		}
		delete(p.failed, sign)
		return
	}
	p.failed[sign]++
	if p.failed[sign] == weakAfter {
		p.logger.Error("signs of life do not arrive; nothing more is claimed until one does", "sign", string(sign), "error", err)
	}
}

// Err returns nil while the gate is open, otherwise an error that names the failing heartbeat.
func (p *Pulse) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, sign := range []Sign{SignOfWorker, SignOfRuns} {
		if n := p.failed[sign]; n >= weakAfter {
			return fmt.Errorf("the %s has failed %d times in a row", sign, n)
		}
	}
	return nil
}
