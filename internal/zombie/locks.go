package zombie

import (
	"context"
	"fmt"
)

// clampBatch bounds one statement on claims, because a clock step affects every claim of that time.
const clampBatch = 1000

// checkLocks prepares the pass: it marks where the scans of the other sweeps start, and clamps
// locks.
func (s *Sweeper) checkLocks(ctx context.Context) error {
	if err := s.cfg.Store.MarkLocks(ctx); err != nil {
		return fmt.Errorf("find the lowest lock: %w", err)
	}
	return s.clampLocks(ctx)
}

// clampLocks shortens locks, deadlines and heartbeats that lie too far in the future because the
// clock was set back. Claims are scanned only at the start and after a clock step, because the scan
// reads endpoints that are due far ahead.
func (s *Sweeper) clampLocks(ctx context.Context) error {
	clamped, err := s.cfg.Store.ClampRuns(ctx, s.cfg.LockTTL)
	for err == nil && s.trust.clamp {
		var n int
		n, err = s.cfg.Store.ClampClaims(ctx, s.cfg.LockTTL, clampBatch)
		clamped += n
		s.trust.clamp = err != nil || n == clampBatch
	}
	if clamped > 0 {
		s.metrics.clamped.Add(float64(clamped))
		s.cfg.Logger.Warn("shortened locks from a clock that was ahead; was the database's clock set back?", "rows", clamped)
	}
	return err
}
