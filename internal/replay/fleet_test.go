package replay_test

import (
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/runs"
	"rubato/internal/spending"
	budgetstore "rubato/internal/store/spending"
	"rubato/internal/store/storetest"
)

// fleet is a database with endpoints of every kind that run for some simulated hours.
type fleet struct {
	*storetest.Bundle
	t      *testing.T
	luck   *rand.Rand
	now    time.Time
	worker storetest.Worker
	prices *budgetstore.Prices
	ids    []endpoints.ID
	begin  time.Time
}

// newFleet registers the endpoints at a simulated noon.
func newFleet(t *testing.T, seed uint64) *fleet {
	t.Helper()
	b := storetest.Setup(t)
	f := &fleet{
		Bundle: b,
		t:      t,
		luck:   rand.New(rand.NewPCG(seed, 1)),
		worker: storetest.Worker{1},
		prices: budgetstore.NewPrices(b.States, slog.New(slog.DiscardHandler)),
		begin:  storetest.Noon(),
	}
	f.pass(0)
	_, _, err := spending.NewService(budgetstore.New(b.DB)).Put(t.Context(), storetest.Tenant, "label:team=shop", "20/h")
	require.NoError(t, err)
	require.NoError(t, f.prices.Refresh(t.Context()))
	for _, edit := range []func(*endpoints.Spec){
		func(s *endpoints.Spec) { s.BaselineInterval, s.MinInterval = 10*time.Minute, 10*time.Second },
		func(s *endpoints.Spec) {
			s.BaselineInterval, s.Budget, s.Jitter = 20*time.Minute, "96/d", 3*time.Second
		},
		func(s *endpoints.Spec) {
			s.BaselineInterval, s.Labels = 15*time.Minute, map[string]string{"team": "shop"}
		},
		func(s *endpoints.Spec) {
			s.BaselineInterval, s.Labels = 15*time.Minute, map[string]string{"team": "shop"}
		},
		func(s *endpoints.Spec) {
			s.BaselineCron, s.BaselineInterval, s.CatchUp, s.Timezone = "*/20 * * * *", 0, governor.CatchUpAll, "Europe/Berlin"
		},
		func(s *endpoints.Spec) {
			s.BaselineCron, s.BaselineInterval, s.Overlap = "7 * * * *", 0, governor.OverlapQueue
		},
		func(s *endpoints.Spec) {
			s.BaselineInterval, s.Planner, s.Retry.MaxAttempts, s.FollowMaxAge = 17*time.Minute, endpoints.PlannerOff, 3, true
		},
		func(s *endpoints.Spec) {
			s.BaselineInterval, s.Idempotent, s.MaxInterval = 30*time.Minute, true, 2*time.Hour
		},
		func(s *endpoints.Spec) {
			s.BaselineInterval, s.Overlap, s.Jitter = 12*time.Minute, governor.OverlapAllow, 2*time.Second
		},
	} {
		e := b.Register(t, func(s *endpoints.Spec) { s.Planner = endpoints.PlannerAct; edit(s) })
		f.ids = append(f.ids, e.ID)
	}
	return f
}

// pass lets some time pass.
func (f *fleet) pass(d time.Duration) {
	if f.now.IsZero() {
		f.now = f.begin
	}
	f.now = f.now.Add(d)
	f.At(f.now)
}

// live runs the fleet until an instant.
func (f *fleet) live(until time.Time) {
	f.t.Helper()
	for f.now.Before(until) {
		if f.luck.IntN(4) == 0 {
			require.NoError(f.t, f.prices.Refresh(f.t.Context()))
		}
		if f.luck.IntN(6) == 0 {
			f.change()
		}
		next := storetest.Query[time.Time](f.t, f.Bundle, "SELECT min(planned_at) FROM schedules")
		f.pass(max(next.Sub(f.now), 0) + time.Duration(f.luck.IntN(1500))*time.Millisecond)
		list := f.Claim(f.t, f.worker, 0)
		if len(list) == 0 {
			continue
		}
		started := f.Start(f.t, f.worker, list...)
		f.pass(time.Duration(1+f.luck.IntN(9_000_000)) * time.Microsecond)
		if f.luck.IntN(5) == 0 { // During a run.
			f.change()
			f.pass(time.Duration(f.luck.IntN(3000)) * time.Millisecond)
		}
		f.finish(list, started)
	}
}

// finish ends runs: each as its own finish, with the rows of its start or with locked ones, or by
// the sweeper.
func (f *fleet) finish(list []claims.Claim, started []dispatch.Started) {
	f.t.Helper()
	byRun := map[[16]byte]claims.Claim{}
	for _, c := range list {
		byRun[c.EndpointID] = c
	}
	lost := 0
	for _, s := range started {
		run := f.run(byRun[s.EndpointID], s)
		if item := f.detach(s); item != [16]byte{} {
			run.ItemID = item
		}
		how := f.FinishOf(f.t, f.worker, 0, run)
		switch f.luck.IntN(20) {
		case 0:
			lost++
			continue
		case 1:
			how.Bases = nil
		}
		done, err := f.Executions.Finish(f.t.Context(), how)
		require.NoError(f.t, err)
		require.Empty(f.t, done.Late)
	}
	if lost > 0 {
		f.pass(3 * time.Minute)
		f.SettleLost(f.t, lost)
	}
}

// run returns a finished run with an outcome by chance.
// detach detaches a started run, if its endpoint allows overlapping ones. Some changes come between
// this and the end of the run.
func (f *fleet) detach(s dispatch.Started) (item [16]byte) {
	f.t.Helper()
	if s.EndpointID != f.ids[len(f.ids)-1] || f.Get(f.t, s.EndpointID).State.Due.Source == governor.SourceManual {
		return item
	}
	token := storetest.Query[int64](f.t, f.Bundle, "SELECT claim_token FROM schedules WHERE endpoint_id = $1", s.EndpointID)
	item, ours, err := f.Executions.Detach(f.t.Context(), dispatch.Detaching{
		Worker: f.worker, StartedAt: s.StartedAt, Run: claims.FencedRun{EndpointID: s.EndpointID, RunID: s.RunID, Token: token},
	})
	require.NoError(f.t, err)
	require.True(f.t, ours)
	f.change()
	return item
}

func (f *fleet) run(c claims.Claim, s dispatch.Started) runs.Run {
	run := storetest.Succeed(f.worker, c, s)
	run.FinishedAt = f.now.Add(-time.Duration(f.luck.IntN(900)))
	o := &run.Outcome
	hour := uint64(f.now.Sub(f.begin) / (40 * time.Minute))
	o.BodyDigest = 1 + hour
	if hour%3 == 0 { // A burst.
		o.BodyDigest = 1000 + uint64(f.now.Sub(f.begin)/time.Minute)
	}
	switch f.luck.IntN(16) {
	case 0, 1:
		run.Outcome = storetest.Fail(f.worker, c, s).Outcome
		run.Outcome.RetryAfter = f.now.Add(time.Duration(f.luck.IntN(1_000_000_000_000)))
	case 2:
		o.Status, o.Reason, o.StatusCode = runs.TimedOut, runs.Timeout, 0
	case 3:
		o.Status, o.Reason, o.StatusCode, o.MaybeSent = runs.Failed, runs.ConnectError, 0, false
	case 4:
		o.StatusCode, o.Reason, o.BodyDigest = 304, runs.NotModified, 0
	case 5:
		o.TargetNext = f.now.Add(time.Duration(f.luck.IntN(900)) * time.Second)
	case 6:
		o.FreshUntil = f.now.Add(time.Duration(f.luck.IntN(900)) * time.Second)
	case 7:
		o.LookAgain = true
	case 8:
		if f.luck.IntN(10) == 0 {
			o.Stop = "the target is gone"
		}
	}
	return run
}

// change makes a change of one endpoint by chance. A refusal is fine: the endpoint may be paused.
func (f *fleet) change() {
	id, ctx, by := f.ids[f.luck.IntN(len(f.ids))], f.t.Context(), storetest.Tenant
	life := time.Duration(1+f.luck.IntN(90)) * time.Minute
	switch f.luck.IntN(9) {
	case 0:
		_, _, _ = f.Service.SetIntervalHint(ctx, by, id, endpoints.HintRequest{Interval: life / 5, TTL: &life, Reason: "a sale"})
	case 1:
		soon := life / 10
		_, _, _ = f.Service.SetOneShotHint(ctx, by, id, endpoints.HintRequest{In: &soon, TTL: &life})
	case 2:
		_, _, _ = f.Service.ClearHints(ctx, by, id)
	case 3:
		_, _ = f.Service.Pause(ctx, by, id, endpoints.PauseRequest{For: &life, Reason: "a deploy"})
	case 4:
		_, _ = f.Service.Resume(ctx, by, id)
	case 5:
		_, _ = f.Service.ResetFailures(ctx, by, id)
	case 6:
		for range 1 + f.luck.IntN(3) {
			_, _ = f.Service.RunNow(ctx, by, id, endpoints.OneOffRequest{})
		}
	case 7, 8:
		_, _, _ = f.Service.Edit(ctx, by, id, 0, func(s endpoints.Spec) (endpoints.Spec, error) {
			s.MinInterval = time.Duration(10+f.luck.IntN(50)) * time.Second
			if f.luck.IntN(4) == 0 {
				s.Planner = []endpoints.Authority{endpoints.PlannerAct, endpoints.PlannerAct, endpoints.PlannerObserve}[f.luck.IntN(3)]
			}
			return s, nil
		})
	}
}
