package items

import (
	"context"
	"fmt"
	"time"

	"rubato/internal/deadletters"
	"rubato/internal/store/pg"
)

// forgetLetters deletes dead letters past their retention, of which zero is none, and the oldest of
// each tenant beyond [deadletters.MaxPerTenant].
func (s *Sweeps) forgetLetters(ctx context.Context, now time.Time, keep time.Duration) error {
	for more := keep > 0; more; {
		rows, err := s.db.Q.DeadLetterDropBefore(ctx, s.db.Sweeps, now.Add(-keep))
		if err != nil {
			return fmt.Errorf("forgetting old dead letters: %w", pg.Translate(err))
		}
		more = rows > 0
	}
	if _, err := s.db.Q.DeadLetterDropBeyond(ctx, s.db.Sweeps, deadletters.MaxPerTenant); err != nil {
		return fmt.Errorf("forgetting dead letters beyond %d of a tenant: %w", deadletters.MaxPerTenant, pg.Translate(err))
	}
	return nil
}
