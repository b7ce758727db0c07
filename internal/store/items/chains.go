package items

import (
	"context"
	"fmt"
	"time"

	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// forgetChainRuns deletes runs of chains that ended before an instant. A run in progress is kept,
// however old it is.
func (s *Sweeps) forgetChainRuns(ctx context.Context, before time.Time) error {
	for more := true; more; {
		rows, err := s.db.Q.ChainRunDropBefore(ctx, s.db.Sweeps, dbsqlc.ChainRunDropBeforeParams{Before: before, MaxRows: ledgerPage})
		if err != nil {
			return fmt.Errorf("removing old runs of chains: %w", pg.Translate(err))
		}
		more = rows > 0
	}
	return nil
}
