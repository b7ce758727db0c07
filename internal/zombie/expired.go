package zombie

import (
	"context"
	"fmt"
	"time"

	"rubato/internal/runs"
)

// endExpired ends suspended runs past the end of their wait as timed out, and those that a user
// canceled.
func (s *Sweeper) endExpired(ctx context.Context) error {
	return s.settleEach(ctx, sweepExpired, func(ctx context.Context) ([]settlement, error) {
		list, err := s.cfg.Store.ListExpired(ctx, s.quarantine.rows(time.Now()), sweepLimit)
		if err != nil {
			return nil, fmt.Errorf("list suspended runs to end: %w", err)
		}
		return settlements(list, func(run runs.Run) (bool, error) { return s.cfg.Store.Expire(ctx, run) }), nil
	})
}
