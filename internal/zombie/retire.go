package zombie

import (
	"context"
	"time"
)

// retire marks workers as gone after all their runs have been settled. Like for runs, that requires
// that their silence counts.
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
