package zombie

import "context"

// historyAhead is the number of day partitions created in advance. A weekend without a sweeper does
// no harm.
const historyAhead = 3

// historyEvery is the number of sweep intervals between history sweeps, because days change slowly.
const historyEvery = 6

// keepHistory creates coming day partitions and drops those past their retention.
func (s *Sweeper) keepHistory(ctx context.Context) error {
	dropped, err := s.cfg.Store.KeepHistory(ctx, Retention{
		Runs:      s.cfg.RunRetention,
		Bodies:    s.cfg.BodyRetention,
		Audit:     s.cfg.AuditRetention,
		Letters:   s.cfg.LetterRetention,
		DaysAhead: historyAhead,
	})
	if dropped > 0 {
		s.cfg.Logger.Info("dropped day partitions past their retention", "partitions", dropped)
	}
	return err
}
