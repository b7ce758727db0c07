package endpoints_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/governor"
)

// noted formats skips with times counted from the start of the test.
func noted(list []endpoints.Skip) []string {
	var texts []string
	for _, s := range list {
		texts = append(texts, fmt.Sprintf("%s to %s: %d %s", s.From.Sub(start), s.To.Sub(start), s.Count, s.Reason))
	}
	return texts
}

// story is the endpoint of a worked case, with all skips recorded so far.
type story struct {
	*bundle
	skips []endpoints.Skip
}

func (s *story) note() {
	s.skips = append(s.skips, s.endpoint().Unrecorded...)
	s.endpoint().Unrecorded = nil
}

// at moves the time to an instant after the start.
func (s *story) at(d time.Duration) { s.memory.now = start.Add(d) }

// execute starts and ends the planned run at instants after the start.
func (s *story) execute(t *testing.T, begin, end time.Duration, edit func(*endpoints.Finished)) endpoints.Recorded {
	t.Helper()
	s.at(end)
	decided := s.run(t, func(f *endpoints.Finished) {
		f.StartedAt = start.Add(begin)
		if edit != nil {
			edit(f)
		}
	})
	s.note()
	return decided
}

// live starts the planned run without an end.
func (s *story) live(begin time.Duration) {
	due := s.endpoint().State.Due
	s.endpoint().State.Running = &endpoints.Running{Slot: due.Slot, Attempt: due.Attempt, StartedAt: start.Add(begin)}
}

func (s *story) pause(t *testing.T, at, until time.Duration) {
	t.Helper()
	s.at(at)
	end := start.Add(until)
	if until == 0 {
		end = time.Time{}
	}
	_, err := s.Pause(t.Context(), actor, s.id, endpoints.PauseRequest{Until: end})
	require.NoError(t, err)
	s.note()
}

func (s *story) resume(t *testing.T, at time.Duration) {
	t.Helper()
	s.at(at)
	_, err := s.Resume(t.Context(), actor, s.id)
	require.NoError(t, err)
	s.note()
}

// reset lets a user make a change that moves no schedule.
func (s *story) reset(t *testing.T, at time.Duration) {
	t.Helper()
	s.at(at)
	_, err := s.ResetFailures(t.Context(), actor, s.id)
	require.NoError(t, err)
	s.note()
}

// ask lets a user request a run now.
func (s *story) ask(t *testing.T, at time.Duration) {
	t.Helper()
	s.at(at)
	_, err := s.RunNow(t.Context(), actor, s.id, endpoints.OneOffRequest{})
	require.NoError(t, err)
	s.note()
}

// unsent makes a run one that its worker did not send.
func unsent(f *endpoints.Finished) {
	f.Status, f.Verdict, f.Unanswered = "skipped", endpoints.Neutral, true
}

func interval(d time.Duration) func(*endpoints.Spec) {
	return func(s *endpoints.Spec) { s.BaselineInterval = d }
}

func cron(expression string, c governor.CatchUp) func(*endpoints.Spec) {
	return func(s *endpoints.Spec) { s.BaselineInterval, s.BaselineCron, s.CatchUp = 0, expression, c }
}

const (
	minute = time.Minute
	hour   = time.Hour
	day    = 24 * time.Hour
)

// worked is a worked case with its recorded skips. Every story begins on a full hour, at the first
// due time of an interval.
type worked struct {
	edit func(*endpoints.Spec)
	tell func(*testing.T, *story)
	want []string
}

func requireWorked(t *testing.T, cases map[string]worked) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &story{bundle: setup(t, tc.edit)}
			tc.tell(t, s)
			require.Equal(t, tc.want, noted(s.skips))
		})
	}
}

// TestSkipsUnderARun covers due times during the endpoint's own live run, for each catch-up policy.
func TestSkipsUnderARun(t *testing.T) {
	t.Parallel()
	requireWorked(t, map[string]worked{
		"OnTimeNothing": {interval(minute), func(t *testing.T, s *story) {
			for due := time.Duration(0); due < 5*minute; due += minute {
				s.execute(t, due, due+59*time.Second, nil)
			}
		}, nil},
		"OverrunOfOne": {interval(minute), func(t *testing.T, s *story) {
			s.execute(t, 0, 90*time.Second, nil)
			s.execute(t, 150*time.Second, 151*time.Second, nil)
		}, []string{"1m0s to 1m0s: 1 overlap_skipped"}},
		"OverrunOfTwo": {interval(minute), func(t *testing.T, s *story) {
			s.execute(t, 0, 150*time.Second, nil)
			s.execute(t, 210*time.Second, 211*time.Second, nil)
		}, []string{"1m0s to 2m0s: 2 overlap_skipped"}},
		"OverrunThatEndsOnADueTime": {interval(minute), func(t *testing.T, s *story) {
			s.execute(t, 0, 120*time.Second, nil) // The next one is a whole interval later.
		}, []string{"1m0s to 2m0s: 2 overlap_skipped"}},
		"CronOnceAfterAnOverrun": {cron("*/5 * * * *", governor.CatchUpOnce), func(t *testing.T, s *story) {
			s.execute(t, 5*minute, 17*minute, nil) // 10, 15; the run at 17 stands for 15.
			s.execute(t, 17*minute, 18*minute, nil)
			s.execute(t, 20*minute, 21*minute, nil)
		}, []string{"10m0s to 10m0s: 1 overlap_skipped"}},
		"CronSkipAfterAnOverrun": {cron("*/5 * * * *", governor.CatchUpSkip), func(t *testing.T, s *story) {
			s.execute(t, 5*minute, 17*minute, nil)
			s.execute(t, 20*minute, 21*minute, nil)
		}, []string{"10m0s to 15m0s: 2 overlap_skipped"}},
		"CronAllAfterAnOverrun": {cron("*/5 * * * *", governor.CatchUpAll), func(t *testing.T, s *story) {
			s.execute(t, 5*minute, 17*minute, nil) // 10 and 15 have their turn.
			s.execute(t, 17*minute, 17*minute+time.Second, nil)
			s.execute(t, 17*minute+time.Second, 17*minute+2*time.Second, nil)
			s.execute(t, 20*minute, 21*minute, nil)
		}, nil},
		"AnotherAttempt": {
			func(s *endpoints.Spec) {
				s.BaselineInterval, s.Retry.MaxAttempts = minute, 2
				s.Retry.Backoff, s.Retry.MaxBackoff = time.Second, time.Second
			},
			func(t *testing.T, s *story) {
				s.execute(t, 0, 10*time.Second, failed)
				s.execute(t, 11*time.Second, 130*time.Second, nil)
			},
			[]string{"1m0s to 2m0s: 2 overlap_skipped"},
		},
		"AMaximumPlansAtOnce": {func(s *endpoints.Spec) { s.BaselineInterval, s.MaxInterval = 10*minute, 3*minute }, func(t *testing.T, s *story) {
			s.execute(t, 0, 7*minute, nil) // At once, in place of the one at 6m.
			s.execute(t, 7*minute, 8*minute, nil)
		}, []string{"3m0s to 3m0s: 1 overlap_skipped"}},
		"Backoff": {interval(minute), func(t *testing.T, s *story) {
			s.execute(t, 0, 90*time.Second, failed) // The next due time is 2m by the failure: 1m is none.
			s.execute(t, 2*minute, 2*minute+time.Second, failed)
			s.execute(t, 6*minute, 6*minute+time.Second, nil)
		}, nil},
	})
}

// TestSkipsInAPause covers due times during a pause.
func TestSkipsInAPause(t *testing.T) {
	t.Parallel()
	requireWorked(t, map[string]worked{
		"AnEveryDayCronPausedByHand": {cron("0 2 * * *", governor.CatchUpOnce), func(t *testing.T, s *story) {
			s.pause(t, minute, 0)
			s.resume(t, 3*day)
		}, []string{"14h0m0s to 62h0m0s: 3 pause_skipped"}},
		"APauseThatExpires": {interval(10 * minute), func(t *testing.T, s *story) {
			s.execute(t, 0, time.Second, nil)
			s.pause(t, minute, hour)
			s.execute(t, hour, hour+time.Second, nil) // It stands for the due time at the end of the pause.
			s.execute(t, hour+10*minute, hour+11*minute, nil)
		}, []string{"10m0s to 50m0s: 5 pause_skipped"}},
		"AResume": {interval(10 * minute), func(t *testing.T, s *story) {
			s.execute(t, 0, time.Second, nil)
			s.pause(t, minute, 0)
			s.resume(t, 55*minute) // The run at once stands for 50.
			s.execute(t, 55*minute, 56*minute, nil)
		}, []string{"10m0s to 40m0s: 4 pause_skipped"}},
		"APauseSetWhileARunIsLive": {interval(10 * minute), func(t *testing.T, s *story) {
			s.live(0)
			s.pause(t, 15*minute, 2*hour) // 10 passed under the run.
			s.execute(t, 0, 25*minute, nil)
			s.resume(t, 45*minute) // The run at once stands for 40.
		}, []string{"10m0s to 10m0s: 1 overlap_skipped", "20m0s to 20m0s: 1 overlap_skipped", "30m0s to 30m0s: 1 pause_skipped"}},
		"APauseAndThenAnOutage": {interval(10 * minute), func(t *testing.T, s *story) {
			s.execute(t, 0, time.Second, nil)
			s.pause(t, minute, hour)
			s.execute(t, 2*hour+5*minute, 2*hour+6*minute, nil)
		}, []string{"10m0s to 50m0s: 5 pause_skipped", "1h10m0s to 2h0m0s: 6 misfire_skipped"}},
		"ARunAskedForDuringAPause": {interval(10 * minute), func(t *testing.T, s *story) {
			s.execute(t, 0, time.Second, nil)
			s.pause(t, minute, 0)
			s.ask(t, 25*minute)
			s.execute(t, 25*minute, 37*minute, nil) // The schedule counts from it.
		}, []string{"10m0s to 20m0s: 2 pause_skipped", "35m0s to 35m0s: 1 overlap_skipped"}},
		"ARunAskedForDuringAPauseThatCalledNobody": {interval(10 * minute), func(t *testing.T, s *story) {
			s.execute(t, 0, time.Second, nil)
			s.pause(t, minute, 40*minute)
			s.ask(t, 25*minute)
			s.execute(t, 52*minute, 66*minute, unsent) // Counted from the requested run: 35, 45, 55, 65.
		}, []string{
			"10m0s to 20m0s: 2 pause_skipped", "35m0s to 35m0s: 1 pause_skipped", "45m0s to 45m0s: 1 misfire_skipped", "55m0s to 1h5m0s: 2 overlap_skipped",
		}},
		"AnArchive": {interval(minute), func(t *testing.T, s *story) {
			s.execute(t, 0, time.Second, nil)
			s.pause(t, 30*time.Second, 0)
			s.at(5 * minute)
			require.NoError(t, s.Archive(t.Context(), actor, s.id, 0))
			s.note()
		}, []string{"1m0s to 5m0s: 5 pause_skipped"}},
		"CronAllPausedAndResumed": {cron("*/5 * * * *", governor.CatchUpAll), func(t *testing.T, s *story) {
			s.pause(t, minute, 0)
			s.at(12 * minute) // A change in between does not decide about the later catch-up.
			_, err := s.ResetFailures(t.Context(), actor, s.id)
			require.NoError(t, err)
			s.note()
			s.resume(t, 17*minute)
			require.True(t, s.endpoint().State.Due.At.Equal(start.Add(20*minute)), "one that never ran has nothing to catch up on")
		}, []string{"5m0s to 15m0s: 3 pause_skipped"}},
	})
}

// TestSkipsOfMissedDueTimes covers due times that no worker served, and the effect of changes on
// them.
func TestSkipsOfMissedDueTimes(t *testing.T) {
	t.Parallel()
	requireWorked(t, map[string]worked{
		"CronAllBeyondItsBounds": {cron("*/5 * * * *", governor.CatchUpAll), func(t *testing.T, s *story) {
			s.execute(t, 5*minute+2*day, 5*minute+2*day, nil) // 100 of the 576 that were missed have their turn.
		}, []string{"10m0s to 39h45m0s: 476 misfire_skipped"}},
		"AWholeOutage": {interval(minute), func(t *testing.T, s *story) {
			s.execute(t, hour, hour+time.Second, nil) // The first due time, an hour late: it counts from there.
			s.execute(t, hour+minute, hour+minute+time.Second, nil)
		}, []string{"1m0s to 1h0m0s: 60 misfire_skipped"}},
		"AnOutageAndThenAnOverrun": {interval(minute), func(t *testing.T, s *story) {
			s.execute(t, 10*minute+30*time.Second, 12*minute, nil)
		}, []string{"1m0s to 10m0s: 10 misfire_skipped", "11m30s to 11m30s: 1 overlap_skipped"}},
		"ThirtyDaysOfEverySecond": {interval(time.Second), func(t *testing.T, s *story) {
			s.execute(t, 30*day, 30*day+time.Millisecond, nil)
		}, []string{"1s to 720h0m0s: 2592000 misfire_skipped"}},
		"ThirtyDaysOfACronOfSeconds": {cron("* * * * * *", governor.CatchUpOnce), func(t *testing.T, s *story) {
			s.execute(t, 30*day+500*time.Millisecond, 30*day+600*time.Millisecond, nil)
		}, []string{"2s to 720h0m0s: 2591999 misfire_skipped"}},
		"ATighterHint": {interval(hour), func(t *testing.T, s *story) {
			s.execute(t, 0, time.Second, nil)
			s.at(30 * minute)
			_, _, err := s.SetIntervalHint(t.Context(), actor, s.id, endpoints.HintRequest{Interval: 5 * minute, TTL: new(20 * minute)})
			require.NoError(t, err)
			s.note()
			s.execute(t, 30*minute, 31*minute, nil)
		}, nil},
		"AHintThatExpiresDuringAnOutage": {interval(hour), func(t *testing.T, s *story) {
			s.execute(t, 0, time.Second, nil)
			s.at(minute)
			_, _, err := s.SetIntervalHint(t.Context(), actor, s.id, endpoints.HintRequest{Interval: 5 * minute, TTL: new(16 * minute)})
			require.NoError(t, err)
			s.note()
			// 10, 15 and 20 by the hint, which ends at 17; then hourly.
			s.execute(t, 3*hour, 3*hour+time.Second, nil)
		}, []string{"10m0s to 2h20m0s: 5 misfire_skipped"}},
		"AMinimum": {func(s *endpoints.Spec) { s.BaselineInterval, s.MinInterval = 45*time.Second, minute }, func(t *testing.T, s *story) {
			s.execute(t, 10*minute, 10*minute+time.Second, nil)
		}, []string{"1m0s to 10m0s: 10 misfire_skipped"}},
		"ACronWithAMinimum": {
			func(s *endpoints.Spec) { cron("* * * * *", governor.CatchUpOnce)(s); s.MinInterval = 150 * time.Second },
			func(t *testing.T, s *story) {
				s.execute(t, minute+10*minute, 12*minute, nil)
			},
			[]string{"3m30s to 11m0s: 4 misfire_skipped"},
		},
		"WhatTheTargetAskedFor": {interval(minute), func(t *testing.T, s *story) {
			s.execute(t, 0, time.Second, func(f *endpoints.Finished) { failed(f); f.RetryAfter = start.Add(10 * minute) })
			s.execute(t, 10*minute, 11*minute, nil)
		}, nil},
		"ARunAskedForThatCalledNobody": {interval(minute), func(t *testing.T, s *story) {
			s.ask(t, 30*time.Second) // Before it ever ran.
			s.execute(t, 5*minute, 7*minute, unsent)
		}, []string{"0s to 0s: 1 misfire_skipped", "1m30s to 4m30s: 4 misfire_skipped", "5m30s to 6m30s: 2 overlap_skipped"}},
		"ARunAskedForThatCalledNobodyAfterAChange": {interval(minute), func(t *testing.T, s *story) {
			s.ask(t, 30*time.Second)
			s.at(130 * time.Second) // What passed up to here is accounted for.
			_, err := s.ResetFailures(t.Context(), actor, s.id)
			require.NoError(t, err)
			s.note()
			s.execute(t, 5*minute, 5*minute+time.Second, unsent)
		}, []string{"0s to 0s: 1 misfire_skipped", "2m30s to 4m30s: 3 misfire_skipped"}},
		"ARunAskedForThatStartedLate": {interval(minute), func(t *testing.T, s *story) {
			s.execute(t, 0, time.Second, nil)
			s.ask(t, 30*time.Second)
			s.execute(t, 310*time.Second, 311*time.Second, nil)
		}, []string{"1m0s to 5m0s: 5 misfire_skipped"}},
		"CronAllAfterARunAskedForThatCalledNobody": {cron("*/5 * * * *", governor.CatchUpAll), func(t *testing.T, s *story) {
			s.execute(t, 5*minute, 6*minute, nil)
			s.ask(t, 7*minute)
			s.execute(t, 17*minute, 18*minute, unsent) // 10 and 15 have their turn.
			s.execute(t, 18*minute, 18*minute+time.Second, nil)
			s.execute(t, 18*minute+time.Second, 18*minute+2*time.Second, nil)
		}, nil},
		"ChangesWhileTheFirstOfACronWaits": {cron("*/5 * * * *", governor.CatchUpOnce), func(t *testing.T, s *story) {
			s.reset(t, 17*minute)
			require.Equal(t, start.Add(15*minute), s.endpoint().State.Due.Slot)
			s.reset(t, 18*minute)
			require.Equal(t, start.Add(15*minute), s.endpoint().State.Due.Slot)
			require.Equal(t, start.Add(18*minute), s.endpoint().State.Due.At)
			s.execute(t, 18*minute, 18*minute+time.Second, nil)
			require.Equal(t, start.Add(15*minute), s.endpoint().State.LastSlot)
			require.Equal(t, start.Add(20*minute), s.endpoint().State.Due.Slot)
		}, []string{"5m0s to 10m0s: 2 misfire_skipped"}},
		"ChangesWhileTheFirstOfACronAllWaits": {cron("*/5 * * * *", governor.CatchUpAll), func(t *testing.T, s *story) {
			s.reset(t, 17*minute)
			s.reset(t, 18*minute)
			for slot := 5 * minute; slot <= 15*minute; slot += 5 * minute {
				require.Equal(t, start.Add(slot), s.endpoint().State.Due.Slot)
				s.execute(t, 18*minute, 18*minute+time.Second, nil)
			}
			require.Equal(t, start.Add(20*minute), s.endpoint().State.Due.Slot)
		}, nil},
		"AChangeWhileTheFirstOfACronSkipWaits": {cron("*/5 * * * *", governor.CatchUpSkip), func(t *testing.T, s *story) {
			s.reset(t, 17*minute)
			require.Equal(t, start.Add(20*minute), s.endpoint().State.Due.Slot)
		}, []string{"5m0s to 15m0s: 3 misfire_skipped"}},
		"AnEditInTheMiddle": {interval(minute), func(t *testing.T, s *story) {
			s.execute(t, 0, time.Second, nil)
			s.at(10*minute + 30*time.Second)
			_, _, err := s.Edit(t.Context(), actor, s.id, 0, func(spec endpoints.Spec) (endpoints.Spec, error) {
				spec.BaselineInterval = hour
				return spec, nil
			})
			require.NoError(t, err)
			s.note()
			require.Equal(t, start.Add(hour), s.endpoint().State.Due.At)
		}, []string{"1m0s to 10m0s: 10 misfire_skipped"}},
	})
}

// TestARunAtOnceStandsForTheLastOccurrence has crons with missed occurrences, and changes before
// the run that catches up.
func TestARunAtOnceStandsForTheLastOccurrence(t *testing.T) {
	t.Parallel()
	requireWorked(t, map[string]worked{
		"ARunAtOnceIsDroppedForAPause": {cron("*/5 * * * *", governor.CatchUpOnce), func(t *testing.T, s *story) {
			s.execute(t, 5*minute, 17*minute, nil)
			require.Equal(t, start.Add(15*minute), s.endpoint().State.Due.Slot, "the last occurrence that was missed")
			require.Equal(t, start.Add(17*minute), s.endpoint().State.Due.At)
			s.pause(t, 17*minute+time.Second, 28*minute)
			require.Equal(t, start.Add(30*minute), s.endpoint().State.Due.Slot)
			s.execute(t, 30*minute, 31*minute, nil)
		}, []string{"10m0s to 10m0s: 1 overlap_skipped", "15m0s to 15m0s: 1 misfire_skipped", "20m0s to 25m0s: 2 pause_skipped"}},
		"AChangeUnderTheRunHasRecordedWhatWasMissed": {cron("*/5 * * * *", governor.CatchUpOnce), func(t *testing.T, s *story) {
			s.live(5 * minute)
			s.reset(t, 16*minute)
			s.execute(t, 5*minute, 17*minute, nil)
			require.Equal(t, start.Add(17*minute), s.endpoint().State.Due.Slot, "10 and 15 are on record, so a run at once stands for itself")
			s.execute(t, 17*minute, 18*minute, nil)
			require.Equal(t, start.Add(20*minute), s.endpoint().State.Due.Slot)
		}, []string{"10m0s to 15m0s: 2 overlap_skipped"}},
		"ANewCronThatMissedOthersThanTheOld": {cron("*/7 * * * *", governor.CatchUpOnce), func(t *testing.T, s *story) {
			s.execute(t, 7*minute, 8*minute, nil)
			s.at(17 * minute)
			_, _, err := s.Edit(t.Context(), actor, s.id, 0, func(spec endpoints.Spec) (endpoints.Spec, error) {
				spec.BaselineCron = "*/5 * * * *"
				return spec, nil
			})
			require.NoError(t, err)
			s.note()
			require.Equal(t, start.Add(17*minute), s.endpoint().State.Due.Slot, "14 was due, 15 was not")
		}, nil},
	})
}
