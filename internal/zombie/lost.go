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

// settleGone settles runs of lost workers within their deadline. If too many are silent at
// once, silence does not count.
func (s *Sweeper) settleGone(ctx context.Context) error {
	search := Search{Signal: s.trust.signal(time.Now(), s.cfg.StaleAfter)}
	if search.Signal.TrustSilence {
		survey, err := s.cfg.Store.CountLive(ctx, s.cfg.StaleAfter)
		if err != nil {
			return fmt.Errorf("count live runs: %w", err)
		}
		held := s.mass.holds(survey, time.Now())
		s.metrics.holds(held, survey.Silent)
		if held {
			search.Signal.TrustSilence = false
			s.cfg.Logger.Warn("settlement of silent runs delayed: too many are silent at once",
				"silent", survey.Silent, "live", survey.Live)
		}
	} else {
		s.metrics.holds(false, 0) // the guard resets itself; distrust lasts a settle period
	}
	return s.settleLost(ctx, search)
}

// settleLost settles the runs of a search in batches.
func (s *Sweeper) settleLost(ctx context.Context, search Search) error {
	name := sweepLost
	if search.ByDeadline {
		name = sweepOverdue
	}
	return s.settleEach(ctx, name, func(ctx context.Context) ([]settlement, error) {
		search.Except, search.Limit = s.quarantine.rows(time.Now()), sweepLimit
		list, err := s.cfg.Store.ListLost(ctx, search)
		if err != nil {
			return nil, fmt.Errorf("list lost runs: %w", err)
		}
		return settlements(list, func(run runs.Run) (bool, error) { return s.cfg.Store.Settle(ctx, search.Signal, run) }), nil
	})
}

// settlements returns runs with the function that ends one of them.
func settlements(list []Lost, end func(run runs.Run) (bool, error)) []settlement {
	found := make([]settlement, len(list))
	for i, l := range list {
		found[i] = settlement{
			run:    l.Run,
			reason: l.Reason,
			end:    end,
		}
	}
	return found
}

// settlement is a run to settle.
type settlement struct {
	run    runs.Run
	reason Reason
	end    func(run runs.Run) (bool, error)
}

// settleEach settles batches until one is not full or half of the sweep's time is used. A run that
// cannot be settled is quarantined, so that it does not block the others.
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

// end ends a run. A panic becomes the error of this run.
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

// settle settles one run. It returns an error only if the database is unavailable or ctx ended.
func (s *Sweeper) settle(ctx context.Context, name string, l settlement) error {
	l.run.Outcome = l.reason.outcome()
	settled, err := s.end(l)
	switch {
	case errs.CodeOf(err) == errs.Unavailable, err != nil && ctx.Err() != nil:
		return fmt.Errorf("settle run %s: %w", l.run.ID, err)
	case err != nil:
		s.quarantine.add(l.run.ID, time.Now())
		s.metrics.errors.WithLabelValues(name).Inc()
		s.cfg.Logger.Error("settle run failed; continuing with the others", "run_id", l.run.ID.String(), "error", err)
	case settled:
		s.metrics.settled.WithLabelValues(string(l.reason)).Inc()
		s.cfg.Logger.Info("settled a run",
			"run_id", l.run.ID.String(), "claim_token", l.run.ClaimToken, "reason", string(l.reason))
	}
	return nil
}

// outcome returns the outcome of a run that was settled for a reason.
func (r Reason) outcome() runs.Outcome {
	o := runs.Outcome{
		Status:    runs.Lost,
		Reason:    runs.WorkerLost,
		MaybeSent: true,
		Error:     r.errorText(),
	}
	switch r {
	case Expired:
		o.Status, o.Reason = runs.TimedOut, runs.Timeout
	case Canceled:
		o.Status, o.Reason = runs.Canceled, runs.CanceledByUser
	case Deadline, Goodbye, Silent, Valve:
	}
	return o
}
