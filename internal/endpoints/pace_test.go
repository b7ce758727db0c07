package endpoints

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/spending"
	"rubato/internal/tempo"
)

// looksEvery returns looks at a step, whose content changes at each.
func looksEvery(step time.Duration, n int) []tempo.Look {
	list := make([]tempo.Look, n)
	for i := range list {
		list[i] = tempo.Look{
			At:       noon.Add(time.Duration(i) * step),
			Answered: true,
			Digest:   uint64(i + 1),
		}
	}
	return list
}

func TestPaceShowsTheIntervalInForce(t *testing.T) {
	t.Parallel()
	e := pacedEndpoint()
	follow(t, e, noon, time.Hour, func(at time.Time) uint64 { return uint64(at.Unix() / 300) })
	p, err := e.Pace(noon.Add(time.Hour), nil)
	require.NoError(t, err)
	require.True(t, p.Steers, p.Why)
	require.Equal(t, "the rate of change sets the interval", p.Why)
	require.Equal(t, e.State.Tempo.Wait, p.Wait)
	require.InDelta(t, e.State.Tempo.Filter.Rate(), p.Rate, 0)
	require.InDelta(t, e.State.Tempo.Price, p.Price, 0)
	require.Equal(t, []time.Duration{time.Second, time.Minute, 10 * time.Second}, []time.Duration{p.Shortest, p.Longest, p.Every})
	require.Equal(t, BudgetBaseline, p.Budget)
	require.Contains(t, p.Next.Why, "a run "+shortly(p.Wait)+" after the last one finds ")
	require.InDelta(t, e.State.Tempo.Filter.Expected(p.Wait), p.Next.Changes, 0)

	e.Spec.Budget = "600/h"
	p, err = e.Pace(noon.Add(time.Hour), nil)
	require.NoError(t, err)
	require.Equal(t, []any{BudgetOwn, "600/h", 6 * time.Second}, []any{p.Budget, p.Runs, p.Every})
	e.Spec.Budget, e.Shared = "", NewSharedBudget(&spending.Budget{Name: "label:team=shop", Text: "30/m", Price: 2})
	p, err = e.Pace(noon.Add(time.Hour), nil)
	require.NoError(t, err)
	require.Equal(t, []any{"label:team=shop", "30/m", 2 * time.Second}, []any{p.Budget, p.Runs, p.Every})
}

func TestPaceSaysWhatPrecedesTheRateOfChange(t *testing.T) {
	t.Parallel()
	for why, edit := range map[string]func(e *Endpoint){
		"planner is observe, so the baseline sets the interval; the rate of change would set it to WAIT": func(e *Endpoint) { e.Spec.Planner = PlannerObserve },
		"the target fails, so the backoff sets the interval; the rate of change would set it to WAIT":    func(e *Endpoint) { e.State.FailureCount = 3 },
		"the endpoint is paused; the rate of change would set it to WAIT":                                func(e *Endpoint) { e.State.PausedUntil = indefinitely },
		"the endpoint is archived and never runs again":                                                  func(e *Endpoint) { e.ArchivedAt = noon },
		"a hint of ada sets the interval until 2026-03-10T14:00:00Z; the rate of change would set it to WAIT": func(e *Endpoint) {
			e.State.IntervalHint = &Hint{
				Interval:  time.Minute,
				Author:    "ada",
				ExpiresAt: noon.Add(2 * time.Hour),
			}
		},
		"the baseline is a cron, whose times hold unless there is a budget; the rate of change would set it to WAIT": func(e *Endpoint) {
			e.Spec.BaselineInterval, e.Spec.BaselineCron, e.State.Tempo = 0, "* * * * *", nil
		},
		"no two answers could be compared yet, so the baseline sets the interval": func(e *Endpoint) { *e = *pacedEndpoint() },
	} {
		e := pacedEndpoint()
		follow(t, e, noon, 10*time.Minute, everySecond)
		edit(e)
		looks := looksEvery(time.Second, 600)
		if e.State.Due.At.IsZero() { // It never ran.
			looks = nil
		}
		p, err := e.Pace(noon.Add(time.Hour), looks)
		require.NoError(t, err)
		require.False(t, p.Steers, why)
		require.Equal(t, strings.ReplaceAll(why, "WAIT", shortly(p.Wait)), p.Why)
	}
}

// An endpoint whose planner is off keeps no rate, so that of its record is shown.
func TestPaceForeseesFromTheRecord(t *testing.T) {
	t.Parallel()
	e := pacedEndpoint()
	e.Spec.Planner = PlannerOff
	p, err := e.Pace(noon, looksEvery(10*time.Second, 200))
	require.NoError(t, err)
	require.True(t, p.Known)
	require.Greater(t, p.Rate, 0.1, "every answer differs")
	require.Equal(t, "planner is off, so the baseline sets the interval; the rate of change would set it to "+shortly(p.Wait), p.Why)
	p, err = e.Pace(noon, looksEvery(10*time.Second, 1))
	require.NoError(t, err)
	require.False(t, p.Known, "one answer has nothing to differ from")
	require.Equal(t, NextLook{}, p.Next)
	require.Equal(t, "planner is off, so the baseline sets the interval; no two answers could be compared yet", p.Why)
}

func TestBaselineRunsLeaveOutPauses(t *testing.T) {
	t.Parallel()
	e := pacedEndpoint()
	hour := func(n float64) time.Time { return noon.Add(time.Duration(n * float64(time.Hour))) }
	pauses := [][2]time.Time{{hour(1), hour(2)}, {hour(2.5), hour(9)}}
	count := func() int64 {
		n, err := e.BaselineRuns(hour(0), hour(4), pauses)
		require.NoError(t, err)
		return n
	}
	require.EqualValues(t, 540, count(), "an hour and a half of ten seconds")
	e.CreatedAt = hour(0.5)
	require.EqualValues(t, 360, count())
	e.ArchivedAt = hour(0.75)
	require.EqualValues(t, 90, count())
	e.ArchivedAt, e.CreatedAt = time.Time{}, time.Time{}
	e.Spec.BaselineInterval, e.Spec.BaselineCron = 0, "*/15 * * * *"
	require.EqualValues(t, 6, count(), "at 15, 30, 45, 60 minutes, and likewise at 15 and 30 after the first pause")
}
