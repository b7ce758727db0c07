package planner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rubato/internal/telemetry"
)

// minPassTimeout is the least time without a successful pass that counts as unhealthy.
const minPassTimeout = 5 * time.Second

// Checks returns the health checks of the planner. They read its own state and make no requests. An
// unavailable advisor is not unhealthy, because baselines and hints stay in force without it.
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
