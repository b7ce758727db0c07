package claims

import (
	"fmt"
	"log/slog"
	"sync"
)

// weakAfter is how many failures in a row stop a worker from taking on more: one may be a broken connection, two a restart.
const weakAfter = 3

// Sign is a kind of sign of life.
type Sign string

// The signs of life.
const (
	SignOfRuns   Sign = "heartbeat of runs"      // extends the locks of runs; given only while there are such runs
	SignOfWorker Sign = "presence of the worker" // stamps the worker's row
)

// Pulse tells by the signs of life that a worker gives whether it may take on more. A worker whose signs do not arrive is thought dead
// soon: what it claims is taken over, and what it runs is lost. It is safe for concurrent use.
type Pulse struct {
	logger *slog.Logger

	mu     sync.Mutex
	failed map[Sign]int // in a row
}

// NewPulse returns a pulse that is steady.
func NewPulse(logger *slog.Logger) *Pulse { return &Pulse{logger: logger, failed: map[Sign]int{}} }

// Beat takes in how a sign was given. Three failures of one kind in a row make the pulse weak until one of that kind succeeds.
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

// Err returns nil while the pulse is steady, and else says what is wrong.
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
