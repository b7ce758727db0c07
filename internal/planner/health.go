package planner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rubato/internal/telemetry"
)

// minSilence is the shortest time without a pass that says anything.
const minPassTimeout = 5 * time.Second

// Checks returns what must hold while the planner does its work. They look at what it remembers and ask nobody. That an advisor cannot be
// asked is none of them: baselines and hints go on without it.
func (p *Planner) Checks() []telemetry.Check {
	return []telemetry.Check{{Name: "planner", Ask: p.checkPasses}}
}

func (p *Planner) checkPasses(context.Context) error {
	if p.draining.Load() {
		return errors.New("the planner is draining")
	}
	seen := p.lastPass.Load()
	if seen == 0 {
		return errors.New("the planner has not looked for endpoints yet")
	}
	limit := max(3*p.cfg.Poll, minPassTimeout) + closeTimeout
	if time.Since(time.Unix(0, seen)) > limit {
		return fmt.Errorf("no pass of the planner has succeeded for %s", limit)
	}
	return nil
}
