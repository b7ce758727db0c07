package zombie

import "context"

// freeStuck frees claims whose locks have been over for a whole settle period. Anybody may take them as they are, so that they stand
// there tells of missing workers, or of a fault.
func (s *Sweeper) freeStuck(ctx context.Context) error {
	freed, err := s.cfg.Store.FreeStuck(ctx, s.cfg.Settle, sweepLimit)
	if freed > 0 {
		s.metrics.freed.Add(float64(freed))
		s.cfg.Logger.Warn("freed claims that nobody took after their locks were over; are there enough workers?", "claims", freed)
	}
	return err
}
