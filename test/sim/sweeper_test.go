package sim

import (
	"bytes"
	"context"
	"slices"
	"time"

	"pgregory.net/rapid"

	"rubato/internal/runs"
	"rubato/internal/zombie"
)

// sweeper is the shared state of all sweepers: the listed lost runs, and the start of the
// uninterrupted connection to the database.
type sweeper struct {
	listed   []runs.Run
	signal   zombie.Signal // of the listed runs
	watching time.Duration
	stepped  time.Duration // when the database's clock was set last; longer ago than anything: never
}

// believes returns the currently valid signals.
func (w *world) believes() zombie.Signal {
	return zombie.Signal{
		StaleAfter: staleAfter, TrustSilence: w.elapsed-w.sweeper.watching >= settlePeriod,
		ClockStepped: w.elapsed-w.sweeper.stepped < settlePeriod, Valve: 10 * settlePeriod,
	}
}

func (w *world) listCall() *call {
	signal := w.believes()
	var list []runs.Run
	return &call{
		name: "list of lost runs",
		run: func(ctx context.Context, s *stores) (err error) {
			list = nil
			if err := s.sweeps.MarkLocks(ctx); err != nil {
				return err
			}
			for _, byDeadline := range []bool{true, false} {
				found, err := s.sweeps.ListLost(ctx, zombie.Search{Signal: signal, ByDeadline: byDeadline, Limit: 100})
				if err != nil {
					return err
				}
				for _, l := range found {
					list = append(list, l.Run)
				}
			}
			slices.SortFunc(list, func(a, b runs.Run) int { return bytes.Compare(a.ID[:], b.ID[:]) })
			return err
		},
		judge: func(c *changes) {
			w.nothing("a list of lost runs", c)
			for _, run := range list {
				w.judgeLost(run, signal)
			}
			for id, l := range w.mirror.live {
				listed := slices.ContainsFunc(list, func(run runs.Run) bool { return run.ID == runs.ID(l.RunID) })
				w.ensure(listed || !w.lost(l, signal), "the lost run of %s was not listed", short(id))
			}
		},
		answer: func() {
			for i := range list {
				list[i].Outcome = runs.Outcome{Status: runs.Lost, Reason: runs.WorkerLost, MaybeSent: true}
			}
			w.sweeper.listed, w.sweeper.signal = list, signal
		},
	}
}

// judgeLost checks that a run is declared lost only on a positive signal.
func (w *world) judgeLost(run runs.Run, signal zombie.Signal) {
	w.t.Helper()
	l := w.mirror.live[run.EndpointID]
	w.ensure(l != nil && runs.ID(l.RunID) == run.ID && l.Token == run.ClaimToken, "run %s is lost and was not live", runName(run.ID))
	w.ensure(l.LockedUntil.Before(w.now()), "run %s is lost under a lock until %s", runName(run.ID), l.LockedUntil) // I10
	w.ensure(w.lost(l, signal), "run %s is lost without a signal", runName(run.ID))
}

// lost reports whether a live run is lost: its lock is over, and a signal says that no worker will
// end it.
func (w *world) lost(l *liveRun, signal zombie.Signal) bool {
	now := w.now()
	row := w.mirror.workers[l.WorkerID]
	believed := signal.TrustSilence || l.LockedUntil.Add(signal.Valve).Before(now)
	gone := row == nil || row.State == "inactive" || believed && row.HeartbeatAt.Add(signal.StaleAfter).Before(now)
	beats := row != nil && row.State != "inactive" && !row.HeartbeatAt.Add(silentWorker).Before(now)
	overdue := l.DeadlineAt.Add(5*time.Second).Before(now) && (!signal.ClockStepped || !beats)
	return l.LockedUntil.Before(now) && (gone || overdue)
}

func (w *world) settleCall(run runs.Run) *call {
	var settled bool
	signal := w.sweeper.signal
	return &call{
		name: "settlement of run " + runName(run.ID),
		run: func(ctx context.Context, s *stores) (err error) {
			settled, err = s.sweeps.Settle(ctx, signal, run)
			return err
		},
		judge: func(c *changes) {
			w.only("a settlement", c, "live_runs", "runs", "schedules", "hints", "skips", "items")
			w.ensure(settled == (len(c.live) == 1) && len(c.live) == len(c.history), "a settlement ended %d runs and told %t", len(c.live), settled)
			if !settled {
				w.reach("settlement refused")
				return
			}
			l := c.live[0].before
			w.ensure(c.live[0].after == nil && runs.ID(l.RunID) == run.ID && l.Token == run.ClaimToken, "a settlement ended another run")
			w.judgeLost(run, signal)
			w.judgeEnd(run, false, c)
		},
	}
}

// sweep lists lost runs, or settles one that was listed some time ago.
func (w *world) sweep(t *rapid.T) {
	if len(w.sweeper.listed) == 0 || chance(t, 30, "list again") {
		w.do(w.listCall())
		return
	}
	run := w.sweeper.listed[0]
	w.sweeper.listed = w.sweeper.listed[1:]
	c := w.settleCall(run)
	w.remember(c)
	w.do(c)
}

// doubt settles a run from a list that is old enough to be outdated.
func (w *world) doubt(t *rapid.T) {
	p := pick(t, "holder", w.workers, func(p *worker) bool { return len(p.running) > 0 })
	e := p.running[0]
	w.sweeper.signal = w.believes()
	w.do(w.settleCall(runs.Run{
		ID: e.started.RunID, EndpointID: e.started.EndpointID, TenantID: e.started.TenantID, ScheduledFor: e.claim.Slot,
		Attempt: e.claim.Attempt, InfraAttempt: e.claim.InfraAttempt, Source: e.claim.Source, ClaimToken: e.claim.Token, WorkerID: p.id, StartedAt: e.started.StartedAt,
		Outcome: runs.Outcome{Status: runs.Lost, Reason: runs.WorkerLost, MaybeSent: true},
	}))
}

func (w *world) takeOverCall() *call {
	var freed int
	return &call{
		name: "take-over",
		run: func(ctx context.Context, s *stores) (err error) {
			freed, err = s.sweeps.TakeOver(ctx, zombie.TakeOverFilter{For: silentWorker, Reach: lockReach})
			return err
		},
		judge: func(c *changes) { w.judgeTakeOver(silentWorker, freed, c) },
	}
}

func (w *world) takeOver(*rapid.T) { w.do(w.takeOverCall()) }
