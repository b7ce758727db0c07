package sim

import (
	"context"
	"slices"
	"time"

	"pgregory.net/rapid"

	"rubato/internal/endpoints"
)

func (w *world) clamp(*rapid.T) { w.do(w.clampCall()) }

// clampCall shortens locks that lie further ahead than any granted one can.
func (w *world) clampCall() *call {
	return &call{
		name: "clamp",
		run: func(ctx context.Context, s *stores) error {
			if _, err := s.sweeps.ClampRuns(ctx, lockTTL); err != nil {
				return err
			}
			_, err := s.sweeps.ClampClaims(ctx, lockTTL, 100)
			return err
		},
		judge: w.judgeClamp,
	}
}

// judgeClamp checks that only such locks are shortened, to the end of a lock that is granted now.
func (w *world) judgeClamp(c *changes) {
	w.t.Helper()
	now := w.now()
	w.only("a clamp", c, "schedules", "live_runs", "workers")
	w.ensure(w.jumps > 0 || len(c.schedules)+len(c.live)+len(c.workers) == 0, "a clamp changed rows although nobody has set the clock")
	for _, s := range c.schedules {
		id, lock := short(s.after.EndpointID), min(lockTTL, time.Duration(s.after.LockMs)*time.Millisecond)
		end := later(now, s.before.PlannedAt).Add(lock)
		w.ensure(s.before.ClaimedBy != nil && s.before.DueAt.After(end.Add(lockSlack)), "a clamp moved %s, which does not lie ahead", id)
		w.ensure(s.after.DueAt.Equal(end) && s.after.Token == s.before.Token && *s.after.ClaimedBy == *s.before.ClaimedBy, "a clamp left %s until %s", id, s.after.DueAt)
		w.reach("clamp")
	}
	for _, l := range c.live {
		id, long := short(l.after.EndpointID), l.before.DeadlineAt.Sub(l.before.StartedAt)
		ahead := l.before.StartedAt.After(now.Add(lockSlack)) || l.before.LockedUntil.After(now.Add(lockTTL+lockSlack))
		w.ensure(ahead, "a clamp moved the run of %s, which does not lie ahead", id)
		w.ensure(!l.after.StartedAt.After(now) && !l.after.DeadlineAt.After(now.Add(long)) && !l.after.LockedUntil.After(now.Add(lockTTL)) &&
			!l.after.LockedUntil.After(l.before.LockedUntil), "a clamp left the run of %s until %s", id, l.after.LockedUntil)
	}
	for _, r := range c.workers {
		w.ensure(r.before.HeartbeatAt.After(now.Add(lockSlack)) && r.after.HeartbeatAt.Equal(now) && r.after.State == r.before.State, "a clamp changed worker %s", short(r.after.ID))
	}
}

// tidy does the sweeper's other work: it frees stuck claims and marks silent workers as gone.
func (w *world) tidy(*rapid.T) {
	w.do(&call{
		name: "freeing of stuck claims",
		run: func(ctx context.Context, s *stores) error {
			if err := s.sweeps.MarkLocks(ctx); err != nil {
				return err
			}
			_, err := s.sweeps.FreeStuck(ctx, settlePeriod, 100)
			return err
		},
		judge: w.judgeFreed,
	})
	if !w.believes().TrustSilence {
		return
	}
	w.do(&call{
		name: "retirement",
		run: func(ctx context.Context, s *stores) error {
			_, err := s.sweeps.Retire(ctx, settlePeriod)
			return err
		},
		judge: w.judgeRetired,
	})
}

func (w *world) judgeFreed(c *changes) {
	w.t.Helper()
	w.only("freeing stuck claims", c, "schedules")
	for _, s := range c.schedules {
		id := endpoints.ID(s.after.EndpointID)
		w.ensure(s.before.ClaimedBy != nil && s.before.DueAt.Add(settlePeriod).Before(w.now()), "%s was freed and is not stuck", short(id))
		w.ensure(w.mirror.live[id] == nil, "%s was freed, whose run is live", short(id))
		w.ensure(s.after.ClaimedBy == nil && s.after.DueAt.Equal(s.after.PlannedAt) && s.after.Token == s.before.Token+1, "%s is half free", short(id))
		w.reach("stuck claim freed")
	}
	for id, s := range w.mirror.schedules {
		stuck := s.ClaimedBy != nil && w.mirror.live[id] == nil && s.DueAt.Add(settlePeriod).Before(w.now())
		freed := slices.ContainsFunc(c.schedules, func(f change[schedule]) bool { return endpoints.ID(f.after.EndpointID) == id })
		w.ensure(freed || !stuck, "the stuck claim of %s was not freed", short(id))
	}
}

func (w *world) judgeRetired(c *changes) {
	w.t.Helper()
	w.only("a retirement", c, "workers")
	for _, r := range c.workers {
		silent := r.before.HeartbeatAt.Add(settlePeriod).Before(w.now())
		w.ensure(silent && r.before.State != "inactive" && r.after.State == "inactive", "worker %s was marked as gone", short(r.after.ID))
		for id, l := range w.mirror.live {
			w.ensure(l.WorkerID != r.after.ID, "worker %s was marked as gone while its run of %s is live", short(r.after.ID), short(id))
		}
		w.reach("worker retired")
	}
}
