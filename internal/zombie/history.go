package zombie

import "context"

// historyAhead is how many days of history are made ready: enough that a weekend without any sweeper does no harm.
const historyAhead = 3

// historyEvery is after how many intervals of the other sweeps the history is looked after: days come and go slowly.
const historyEvery = 6

// keepHistory makes coming days ready and drops those past their retention.
func (s *Sweeper) keepHistory(ctx context.Context) error {
	dropped, err := s.cfg.Store.KeepHistory(ctx, Retention{
		Runs: s.cfg.RunRetention, Bodies: s.cfg.BodyRetention, Audit: s.cfg.AuditRetention, DaysAhead: historyAhead,
	})
	if dropped > 0 {
		s.cfg.Logger.Info("dropped days of history past their retention", "partitions", dropped)
	}
	return err
}
