package zombie

import (
	"context"
	"time"
)

// retire marks workers as gone whose runs have all been settled. Their silence has to be believed for that, like that of runs.
func (s *Sweeper) retire(ctx context.Context) error {
	if !s.trust.signal(time.Now(), s.cfg.StaleAfter).TrustSilence {
		return nil
	}
	gone, err := s.cfg.Store.Retire(ctx, s.cfg.Settle)
	if gone > 0 {
		s.cfg.Logger.Info("marked silent workers as gone", "workers", gone)
	}
	return err
}
