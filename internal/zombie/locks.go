package zombie

import "context"

// clampBatch bounds one statement about claims; a step of the clock concerns whatever was claimed then.
const clampBatch = 1000

// clampLocks brings back what lies further ahead than it can: locks, deadlines and signs of life from a clock that has been set back.
// The claims are looked through only after a step of the clock, and once at the start, because that reads what comes due far ahead.
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
		s.cfg.Logger.Warn("brought back locks that a clock ahead had granted; was the database's clock set back?", "rows", clamped)
	}
	return err
}
