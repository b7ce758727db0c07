package zombie

import (
	"context"
	"time"
)

const (
	// takeOverPeriod is the interval between searches for silent workers, because a claim without a
	// worker delays a due time.
	takeOverPeriod = 2 * time.Second
	// silentWorker is three heartbeats of 2 s.
	silentWorker = 6 * time.Second
)

// takeOver frees claims that silent workers never started.
func (s *Sweeper) takeOver(ctx context.Context) error {
	freed, err := s.cfg.Store.TakeOver(ctx, TakeOverFilter{For: silentWorker, Reach: s.cfg.Horizon + s.cfg.LockTTL + time.Second})
	if freed > 0 {
		s.metrics.stolen.Add(float64(freed))
		s.cfg.Logger.Info("took over claims that a silent worker never started", "claims", freed)
	}
	return err
}
