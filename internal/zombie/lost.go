package zombie

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"rubato/internal/errs"
	"rubato/internal/runs"
)

// settleOverdue settles runs past their deadline.
func (s *Sweeper) settleOverdue(ctx context.Context) error {
	return s.settleLost(ctx, Search{Signal: s.trust.signal(time.Now(), s.cfg.StaleAfter), ByDeadline: true})
}

// settleGone settles runs within their deadline whose worker is gone, unless there are so many that the signs of life are in doubt.
func (s *Sweeper) settleGone(ctx context.Context) error {
	search := Search{Signal: s.trust.signal(time.Now(), s.cfg.StaleAfter)}
	if search.Signal.TrustSilence {
		survey, err := s.cfg.Store.CountLive(ctx, s.cfg.StaleAfter)
		if err != nil {
			return fmt.Errorf("counting live runs: %w", err)
		}
		held := s.mass.holds(survey, time.Now())
		s.metrics.holds(held, survey.Silent)
		if held {
			search.Signal.TrustSilence = false
			s.cfg.Logger.Warn("holding back the settlement of runs: more are silent at once than workers die",
				"silent", survey.Silent, "live", survey.Live)
		}
	} else {
		s.metrics.holds(false, 0) // The guard forgets by itself: distrust lasts for a settle period.
	}
	return s.settleLost(ctx, search)
}

// settleLost settles what a search finds, batch after batch.
func (s *Sweeper) settleLost(ctx context.Context, search Search) error {
	name := sweepLost
	if search.ByDeadline {
		name = sweepOverdue
	}
	return s.settleEach(ctx, name, func(ctx context.Context) ([]settlement, error) {
		search.Except, search.Limit = s.quarantine.rows(time.Now()), sweepLimit
		list, err := s.cfg.Store.ListLost(ctx, search)
		if err != nil {
			return nil, fmt.Errorf("listing lost runs: %w", err)
		}
		found := make([]settlement, len(list))
		for i, l := range list {
			found[i] = settlement{run: l.Run, reason: l.Reason, end: func(run runs.Run) (bool, error) {
				return s.cfg.Store.Settle(ctx, search.Signal, run)
			}}
		}
		return found, nil
	})
}

// settlement is a run that is to be settled.
type settlement struct {
	run    runs.Run
	reason Reason
	end    func(run runs.Run) (bool, error)
}

// settleEach settles one batch after the other until one comes that is not full, or half of the sweep's time is over. A run that cannot
// be settled is passed over for a while, and keeps no other.
func (s *Sweeper) settleEach(ctx context.Context, name string, next func(context.Context) ([]settlement, error)) error {
	for began := time.Now(); time.Since(began) < sweepTimeout/2; {
		list, err := next(ctx)
		if err != nil {
			return err
		}
		for _, l := range list {
			if err := s.settle(ctx, name, l); err != nil {
				return err
			}
		}
		if len(list) < sweepLimit {
			return nil
		}
	}
	return nil
}

// end ends a run. A panic over it is an error of this run alone.
func (s *Sweeper) end(l settlement) (settled bool, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			s.metrics.panics.Inc()
			s.cfg.Logger.Error("settling a run panicked", "run_id", l.run.ID.String(), "error", fault, "stack", string(debug.Stack()))
			err = errors.New("settling the run led to a fault inside Rubato")
		}
	}()
	return l.end(l.run)
}

// settle settles one run. The error is that of a database which cannot be reached, or of a sweep that was told to end.
func (s *Sweeper) settle(ctx context.Context, name string, l settlement) error {
	l.run.Outcome = runs.Outcome{Status: runs.Lost, Reason: runs.WorkerLost, MaybeSent: true, Error: l.reason.errorText()}
	settled, err := s.end(l)
	switch {
	case errs.CodeOf(err) == errs.Unavailable, err != nil && ctx.Err() != nil:
		return fmt.Errorf("settling run %s: %w", l.run.ID, err)
	case err != nil:
		s.quarantine.add(l.run.ID, time.Now())
		s.metrics.errors.WithLabelValues(name).Inc()
		s.cfg.Logger.Error("a run cannot be settled; going on with the others", "run_id", l.run.ID.String(), "error", err)
	case settled:
		s.metrics.settled.WithLabelValues(string(l.reason)).Inc()
		s.cfg.Logger.Info("settled a run that nobody would have ended",
			"run_id", l.run.ID.String(), "claim_token", l.run.ClaimToken, "reason", string(l.reason))
	}
	return nil
}
