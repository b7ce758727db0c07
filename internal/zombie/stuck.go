package zombie

import "context"

// freeStuck frees claims with locks that expired a whole settle period ago. Any worker may take
// such claims as they are, so their presence shows that workers are missing, or a fault.
func (s *Sweeper) freeStuck(ctx context.Context) error {
	freed, err := s.cfg.Store.FreeStuck(ctx, s.cfg.Settle, sweepLimit)
	if freed > 0 {
		s.metrics.freed.Add(float64(freed))
		s.cfg.Logger.Warn("freed claims that no worker took after their locks expired; are there enough workers?", "claims", freed)
	}
	return err
}
