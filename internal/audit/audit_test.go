package audit_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"rubato/internal/audit"
)

// breached returns the invariants that a report finds broken.
func breached(r audit.Report) []audit.Invariant {
	var list []audit.Invariant
	for _, c := range r.Checks {
		if c.Breaches > 0 {
			list = append(list, c.Invariant)
		}
	}
	return list
}

func TestASoundHistoryHasNoBreach(t *testing.T) {
	t.Parallel()
	r := newStory(t).audit()

	require.Empty(t, breached(r))
	require.Zero(t, r.Breaches())
	require.Equal(t, 4, r.Counts.Starts)
	require.Equal(t, map[string]int{"succeeded": 4}, r.Counts.Statuses)
	require.Equal(t, 4, r.Counts.Requests)
	require.Equal(t, audit.Lateness{N: 3, P50: 20, P90: 20, P99: 20, Max: 20}, r.Lateness, "the first run in the window has no plan")
	for _, i := range []audit.Invariant{
		audit.OneLiveRun, audit.OneResult, audit.FencesIncrease, audit.OneEnd, audit.NeverEarly, audit.OneRequest, audit.NoOverlap,
		audit.NoLostDueTime, audit.NoneOverdue, audit.MinGap,
	} {
		require.Positive(t, r.Check(i).Checked, "%s", i)
	}
	require.Zero(t, r.Check(audit.NoFalseReap).Checked, "nothing was lost, so nothing can tell")
}

// TestAnInfrastructureAttemptIsNoDuplicate has a due time served by the run after one that a
// shutdown ended.
func TestAnInfrastructureAttemptIsNoDuplicate(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.repeats(1)
	r := s.audit()
	require.Empty(t, breached(r))
	require.Zero(t, r.Counts.Duplicates)
	require.Equal(t, map[string]int{"succeeded": 4, "lost": 1}, r.Counts.Statuses)
}

// TestAttemptAfterAnOpenCircuitIsNoDuplicate has a due time served after the breaker of the host
// held back its first run, which sent nothing.
func TestAttemptAfterAnOpenCircuitIsNoDuplicate(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.repeats(1)
	s.exec("UPDATE runs SET status = 'skipped', reason_code = 'circuit_open' WHERE id = $1", s.id(1))
	s.requests = slices.DeleteFunc(s.requests, func(r audit.Request) bool { return r.RunID == s.id(1).String() })
	r := s.audit()
	require.Empty(t, breached(r))
	require.Equal(t, map[string]int{"succeeded": 4, "skipped": 1}, r.Counts.Statuses)
}

// TestOneOffRunsDoNotCountAsLate delays a requested run by 5 s, as if another run was in flight.
func TestOneOffRunsDoNotCountAsLate(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.exec("UPDATE runs SET source = 'manual', started_at = started_at + interval '5 s', finished_at = finished_at + interval '5 s' WHERE id = $1", s.id(2))
	require.Equal(t, audit.Lateness{N: 2, P50: 20, P90: 20, P99: 20, Max: 20}, s.audit().Lateness)
}

// breach is a way to break a sound history, and every promise that it breaks.
type breach struct {
	tell func(*story)
	want []audit.Invariant
}

func requireFound(t *testing.T, breaches map[string]breach) {
	t.Helper()
	for name, c := range breaches {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStory(t)
			c.tell(s)
			r := s.audit()
			if diff := cmp.Diff(c.want, breached(r)); diff != "" {
				var card strings.Builder
				require.NoError(t, r.WriteCard(&card))
				t.Fatalf("breached (-want +got):\n%s\n%s", diff, card.String())
			}
		})
	}
}

func TestBreachesInTheDatabaseAreFound(t *testing.T) {
	t.Parallel()
	requireFound(t, map[string]breach{
		"LiveAndOver": {
			func(s *story) { s.live(time.Minute); s.exec("UPDATE live_runs SET run_id = $1", s.id(0)) },
			[]audit.Invariant{audit.OneLiveRun},
		},
		"StartedWhileTheOneBeforeWasLive": {
			func(s *story) {
				s.exec("UPDATE runs SET finished_at = $2 WHERE id = $1", s.id(1), s.slot(2).Add(time.Second))
			},
			[]audit.Invariant{audit.OneLiveRun},
		},
		"TwoResultsOfADueTime": {
			func(s *story) {
				s.exec("UPDATE runs SET id = gen_random_uuid(), scheduled_for = $2, attempt = 2, source = 'retry' WHERE id = $1", s.id(1), s.slot(0))
				s.requests = s.requests[:0]
			},
			[]audit.Invariant{audit.OneResult},
		},
		"AnInfrastructureAttemptAfterNoLoss": {
			func(s *story) {
				s.repeats(1)
				s.exec("UPDATE runs SET status = 'failed', reason_code = 'timeout' WHERE id = $1", s.id(1))
			},
			[]audit.Invariant{audit.OneResult},
		},
		"AnInfrastructureAttemptThatWasNotCounted": {
			func(s *story) { s.repeats(2) },
			[]audit.Invariant{audit.OneResult},
		},
		"AnOccurrenceThatIsCaughtUpOnAgainstThePolicy": {
			func(s *story) { s.servesEarlier("skip"); s.exec(`UPDATE endpoints SET spec = spec - 'minIntervalMs'`) },
			[]audit.Invariant{audit.NoLostDueTime},
		},
		"TheSameFenceTwice": {
			func(s *story) { s.exec("UPDATE runs SET claim_token = 3 WHERE id = $1", s.id(2)) },
			[]audit.Invariant{audit.FencesIncrease},
		},
		"AFenceThatWentBack": {
			func(s *story) {
				s.exec("UPDATE runs SET claimed_at = $2 WHERE id = $1", s.id(2), s.slot(0).Add(-time.Minute))
			},
			[]audit.Invariant{audit.FencesIncrease},
		},
		"AScheduleBehindItsRuns": {
			func(s *story) { s.exec("UPDATE schedules SET claim_token = 2") },
			[]audit.Invariant{audit.FencesIncrease},
		},
		"EndedTwice": {
			func(s *story) {
				s.exec(`INSERT INTO run_events (run_id, scheduled_for, kind, detail) VALUES ($1, $2, 'settled', '{}'), ($1, $2, 'settled', '{}')`,
					s.id(0), s.slot(0))
			},
			[]audit.Invariant{audit.OneEnd},
		},
		"StartedEarly": {
			func(s *story) {
				s.exec("UPDATE runs SET started_at = $2 WHERE id = $1", s.id(0), s.slot(0).Add(-60*time.Millisecond))
			},
			[]audit.Invariant{audit.NeverEarly},
		},
		"ADueTimeThatLedNowhere": {
			func(s *story) { s.exec("DELETE FROM runs WHERE id = $1", s.id(2)); s.requests = s.requests[:0] },
			[]audit.Invariant{audit.NoLostDueTime},
		},
		"APlanThatNobodyDecided": {
			func(s *story) { s.exec("UPDATE schedules SET planned_at = planned_at + interval '10 s'") },
			[]audit.Invariant{audit.NoLostDueTime},
		},
		"ADueTimeThatWaits": {
			func(s *story) {
				s.exec("UPDATE schedules SET planned_at = clock_timestamp() - interval '3 min'")
				s.exec("UPDATE runs SET next_run_at = (SELECT planned_at FROM schedules) WHERE id = $1", s.id(3))
			},
			[]audit.Invariant{audit.NoneOverdue},
		},
		"ARunThatNobodySettled": {
			func(s *story) { s.live(-5 * time.Minute) },
			[]audit.Invariant{audit.NoneStuck},
		},
		"ARunLeftAfterEverythingWasPaused": {
			func(s *story) { s.live(time.Minute); s.quiet = true },
			[]audit.Invariant{audit.NoneStuck},
		},
		"SettledWhileItsLockHeld": {
			func(s *story) {
				s.exec("UPDATE runs SET status = 'lost', reason_code = 'worker_lost', finished_at = started_at + interval '5 s' WHERE id = $1", s.id(1))
			},
			[]audit.Invariant{audit.NoFalseReap},
		},
		"TooCloseToTheOneBefore": {
			func(s *story) { s.exec(`UPDATE endpoints SET spec = spec || '{"minIntervalMs": 12000}'`) },
			[]audit.Invariant{audit.MinGap},
		},
		"CloserByTwoMilliseconds": {
			func(s *story) {
				s.exec("UPDATE runs SET started_at = started_at + interval '2 ms' WHERE id = $1", s.id(1))
			},
			[]audit.Invariant{audit.MinGap},
		},
		"AnAttemptTooCloseToTheOneBefore": {
			func(s *story) {
				s.exec("UPDATE runs SET id = gen_random_uuid(), scheduled_for = $2, attempt = 2, started_at = started_at - interval '1 s' WHERE id = $1", s.id(1), s.slot(0))
				s.exec("UPDATE runs SET status = 'failed' WHERE id = $1", s.id(0))
				s.requests = s.requests[:0]
			},
			[]audit.Invariant{audit.MinGap},
		},
		"StartedInAPause": {
			func(s *story) { s.decide("pause", s.slot(2).Add(-time.Second), s.slot(1000)) },
			[]audit.Invariant{audit.PauseHolds},
		},
	})
}

// TestSlotsThatAreNotAccountedForAreFound corrupts the records of skipped due times.
func TestSlotsThatAreNotAccountedForAreFound(t *testing.T) {
	t.Parallel()
	requireFound(t, map[string]breach{
		"AnOverrunWithoutARecord": {
			func(s *story) {
				s.overrun()
				s.exec("DELETE FROM runs WHERE attempt = 0")
			},
			[]audit.Invariant{audit.OneRecord},
		},
		"ALateStartThatCalledNobodyHidesNothing": {
			func(s *story) {
				s.startExpired()
				s.exec("DELETE FROM runs WHERE attempt = 0")
			},
			[]audit.Invariant{audit.OneRecord},
		},
		"AnOccurrenceBeforeTheOneThatIsCaughtUpOn": {
			func(s *story) {
				s.catchesUpOnce()
				s.exec("DELETE FROM runs WHERE attempt = 0")
			},
			[]audit.Invariant{audit.OneRecord},
		},
		"AQueuedSlotThatIsSkipped": {
			func(s *story) {
				s.queues()
				s.skip(2, 2)
				s.exec("UPDATE runs SET next_run_at = $2 WHERE id = $1", s.id(1), s.slot(3))
			},
			[]audit.Invariant{audit.OneRecord},
		},
		"AQueuedSlotWithoutARecord": {
			func(s *story) {
				s.queues()
				s.exec("DELETE FROM runs WHERE id = $1", s.id(2))
			},
			[]audit.Invariant{audit.NoLostDueTime, audit.OneRecord},
		},
		"ALateStartThatWasPlannedLaterHidesNothing": {
			func(s *story) {
				s.waitsForTheMinimum()
				s.exec("DELETE FROM runs WHERE attempt = 0")
			},
			[]audit.Invariant{audit.OneRecord},
		},
		"APauseWithoutARecord": {
			func(s *story) {
				s.skip(2, 2)
				s.exec("DELETE FROM runs WHERE attempt = 0")
				s.decide("pause", s.slot(1).Add(time.Second), s.slot(3))
			},
			[]audit.Invariant{audit.OneRecord},
		},
		"ARecordBesideTheDueTimeThatWasLost": {
			func(s *story) {
				s.skip(2, 2)
				s.exec("UPDATE runs SET skipped_from = skipped_from + interval '1 ms', scheduled_for = scheduled_for + interval '1 ms' WHERE attempt = 0")
			},
			[]audit.Invariant{audit.NoLostDueTime},
		},
		"ARunOfASkippedDueTime": {
			func(s *story) {
				s.skip(2, 2)
				s.exec("UPDATE runs SET skipped_from = $1 WHERE attempt = 0", s.slot(1))
			},
			[]audit.Invariant{audit.OneRecord},
		},
		"ADueTimeInTwoRecords": {
			func(s *story) {
				s.overrun()
				s.exec(`
					INSERT INTO runs SELECT (json_populate_record(r, json_build_object('id', gen_random_uuid(), 'skipped_from', scheduled_for, 'skipped_count', 1))).*
					FROM runs r WHERE attempt = 0`)
			},
			[]audit.Invariant{audit.OneRecord},
		},
	})
}

func TestBreachesThatATargetSawAreFound(t *testing.T) {
	t.Parallel()
	requireFound(t, map[string]breach{
		"ArrivedEarly": {
			func(s *story) { s.requests[2].Arrived = s.slot(2).Add(-60 * time.Millisecond) },
			[]audit.Invariant{audit.NeverEarly},
		},
		"TwoRequestsOfARun": {
			func(s *story) {
				again := s.requests[1]
				again.Arrived, again.Ended, again.Accepted = again.Ended, again.Ended.Add(time.Second), false
				s.requests = append(s.requests, again)
			},
			[]audit.Invariant{audit.FencesIncrease, audit.OneRequest},
		},
		"ASuccessThatNobodySaw": {
			func(s *story) { s.requests = s.requests[1:] },
			[]audit.Invariant{audit.OneRequest},
		},
		"ARequestOfNoRun": {
			func(s *story) {
				stray := s.requests[0]
				stray.RunID = s.id(99).String()
				s.requests = append(s.requests, stray)
			},
			[]audit.Invariant{audit.OneRequest},
		},
		"SentAfterItsRunHadEnded": {
			func(s *story) {
				s.requests[1].Arrived, s.requests[1].Ended = s.slot(1).Add(2*time.Second), s.slot(1).Add(3*time.Second)
			},
			[]audit.Invariant{audit.NoStaleSend},
		},
		"Overlap": {
			func(s *story) { s.requests[1].Ended = s.slot(2).Add(time.Second) },
			[]audit.Invariant{audit.NoOverlap},
		},
		"OverlapWithAnotherWorkerFrozen": {
			func(s *story) {
				s.requests[1].Ended = s.slot(2).Add(time.Second)
				s.freezes = []audit.Freeze{{WorkerID: [16]byte{9}, From: s.slot(1), To: s.slot(2)}}
			},
			[]audit.Invariant{audit.NoOverlap},
		},
		"SettledWithItsRequestOpen": {
			func(s *story) {
				s.exec("UPDATE runs SET status = 'lost', reason_code = 'worker_lost', finished_at = started_at + interval '7 s' WHERE id = $1", s.id(1))
				s.requests[1].Ended = s.slot(1).Add(8 * time.Second)
			},
			[]audit.Invariant{audit.NoFalseReap},
		},
		"OverlapThatTheFenceCannotTell": {
			func(s *story) {
				s.requests[1].Ended, s.requests[2].Fence = s.slot(2).Add(time.Second), 3
				s.freezes = []audit.Freeze{{WorkerID: s.worker, From: s.slot(1), To: s.slot(2)}}
			},
			[]audit.Invariant{audit.FencesIncrease, audit.NoOverlap},
		},
	})
}

// What looks like a breach and is none.
func TestExcusesCount(t *testing.T) {
	t.Parallel()
	for name, tell := range map[string]func(*story){
		"AnOverlapWithItsWorkerFrozen": func(s *story) {
			s.requests[1].Ended = s.slot(2).Add(time.Second)
			s.freezes = []audit.Freeze{{WorkerID: s.worker, From: s.slot(1), To: s.slot(2)}}
		},
		"ADueTimeRecordedAsSkipped": func(s *story) {
			s.skip(2, 2)
		},
		"AnOverrunThatIsRecorded": func(s *story) {
			s.overrun()
		},
		"AStartThatExpired":                     func(s *story) { s.startExpired() },
		"OneRunForAllOccurrencesThatWereMissed": func(s *story) { s.catchesUpOnce() },
		"AQueuedSlot":                           func(s *story) { s.queues() },
		"AStartThatWaitedForTheMinimum":         func(s *story) { s.waitsForTheMinimum() },
		"AStartInFlightWhenItsEndpointWasPaused": func(s *story) {
			s.decide("pause", s.slot(3).Add(10*time.Millisecond), s.slot(1000))
			s.exec("UPDATE schedules SET planned_at = $1, paused_until = $1", s.slot(1000))
			s.exec("UPDATE runs SET next_run_at = $2 WHERE id = $1", s.id(3), s.slot(1000))
		},
		"APauseThatIsRecorded": func(s *story) {
			s.skip(2, 2)
			s.decide("pause", s.slot(1).Add(time.Second), s.slot(3))
		},
		"ADueTimeThatAChangeReplaced": func(s *story) {
			s.exec("DELETE FROM runs WHERE id = $1", s.id(2))
			s.requests = s.requests[:0]
			s.decide("edit", s.slot(1).Add(time.Second), s.slot(3))
		},
		"APausedEndpoint": func(s *story) {
			s.decide("pause", s.slot(3).Add(time.Second), s.slot(1000))
			s.exec("UPDATE schedules SET planned_at = $1, paused_until = $1", s.slot(1000))
		},
		"ARunWithinItsLock": func(s *story) { s.live(time.Minute) },
		"ARunThatTheSweeperMayStillLeave": func(s *story) {
			s.live(-time.Minute)
		},
		"ASettlementAfterTheLock": func(s *story) {
			s.exec("UPDATE runs SET status = 'lost', reason_code = 'worker_lost', finished_at = started_at + interval '8 s' WHERE id = $1", s.id(1))
		},
		"ASettlementUnderAFrozenWorker": func(s *story) {
			s.exec("UPDATE runs SET status = 'lost', reason_code = 'worker_lost', finished_at = started_at + interval '7 s' WHERE id = $1", s.id(1))
			s.requests[1].Ended = s.slot(1).Add(8 * time.Second)
			s.freezes = []audit.Freeze{{WorkerID: s.worker, From: s.slot(1), To: s.slot(2)}}
		},
		"AnOccurrenceThatIsCaughtUpOnWhenTheMinimumAllows": func(s *story) { s.servesEarlier("all") },
		"OneThatCalledNobodyIsNoStart": func(s *story) {
			s.exec(`UPDATE endpoints SET spec = spec || '{"minIntervalMs": 12000}'`)
			s.exec("UPDATE runs SET status = 'skipped', reason_code = 'misfire_skipped' WHERE id IN ($1, $2)", s.id(1), s.id(3))
			s.requests = s.requests[:0]
		},
		"ALateAnswer": func(s *story) {
			s.exec(`INSERT INTO run_events (run_id, scheduled_for, kind, detail) VALUES ($1, $2, 'late_result', '{}')`, s.id(0), s.slot(0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStory(t)
			tell(s)
			require.Empty(t, breached(s.audit()))
		})
	}
}

func TestAnExcusedOverlapIsCounted(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.requests[1].Ended = s.slot(2).Add(time.Second)
	s.freezes = []audit.Freeze{{WorkerID: s.worker, From: s.slot(1), To: s.slot(2)}}
	r := s.audit()
	require.Equal(t, 1, r.Counts.Overlaps)
	require.Equal(t, 1, r.Counts.Excused)
}

func TestAuditWritesNothing(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.exec("ALTER DATABASE " + database(t, s) + " SET default_transaction_read_only = on")
	require.Empty(t, breached(s.audit()), "a database that refuses every write can be audited")
}

func database(t *testing.T, s *story) (name string) {
	t.Helper()
	require.NoError(t, s.conn.QueryRow(t.Context(), "SELECT current_database()").Scan(&name))
	return name
}

func TestReportsAreForPeopleAndPrograms(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.requests = append(s.requests, s.requests[1])
	r := s.audit()

	var card, data bytes.Buffer
	require.NoError(t, r.WriteCard(&card))
	require.NoError(t, r.WriteJSON(&data))
	require.Contains(t, card.String(), "| duplicate requests | 1 |")
	require.Contains(t, card.String(), s.id(1).String()+": 2 requests arrived")
	require.Contains(t, card.String(), "not checked")
	var read audit.Report
	require.NoError(t, json.Unmarshal(data.Bytes(), &read))
	require.Equal(t, r.Breaches(), read.Breaches())
	require.Equal(t, r.Check(audit.OneRequest), read.Check(audit.OneRequest))
}

func TestALogIsReadLineByLine(t *testing.T) {
	t.Parallel()
	list, err := audit.ReadLog(strings.NewReader(`{"runId":"run_1","fence":7,"arrived":"2026-01-02T03:04:05Z"}` + "\n\n" + `{"runId":"run_2"}`))
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, int64(7), list[0].Fence)
	_, err = audit.ReadLog(strings.NewReader("{}\n{"))
	require.ErrorContains(t, err, "line 2")
}
