package zombie

import (
	"context"
	"fmt"
	"time"

	"rubato/internal/runs"
)

// settleOrphans settles live runs that no schedule knows of. Nothing of ours makes them: they are what a restored backup or a hand in
// the database leaves, and they keep their endpoint from running.
func (s *Sweeper) settleOrphans(ctx context.Context) error {
	return s.settleEach(ctx, sweepOrphans, func(ctx context.Context) ([]settlement, error) {
		list, err := s.cfg.Store.ListOrphans(ctx, s.cfg.Settle, Search{Except: s.poison.rows(time.Now()), Limit: sweepLimit})
		if err != nil {
			return nil, fmt.Errorf("listing orphaned runs: %w", err)
		}
		found := make([]settlement, len(list))
		for i, run := range list {
			found[i] = settlement{run: run, reason: Orphaned, end: func(run runs.Run) (bool, error) {
				return s.cfg.Store.SettleOrphan(ctx, s.cfg.Settle, run)
			}}
		}
		return found, nil
	})
}
