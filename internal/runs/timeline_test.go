package runs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/runs"
)

// TestAStoryIsInTheOrderInWhichItHappened has every kind of event, kept in another order, and an
// end that a worker measured too early.
func TestAStoryIsInTheOrderInWhichItHappened(t *testing.T) {
	t.Parallel()
	at := func(s int) time.Time { return time.Date(2030, 1, 1, 0, 0, s, 0, time.UTC) }
	run := runs.Run{
		WorkerID: [16]byte{1}, ClaimToken: 7, ClaimedAt: at(1), StartedAt: at(2), FinishedAt: at(4),
		Outcome:  runs.Outcome{Status: runs.Lost, Reason: runs.WorkerLost, Error: "gone"},
		Decision: runs.Decision{NextRunAt: at(9), Source: "manual"},
	}
	kept := []runs.Event{
		{At: at(8), Kind: runs.EventChainRefused},
		{At: at(7), Kind: runs.EventChainStarted},
		{At: at(6), Kind: runs.EventLateResult},
		{At: at(5), Kind: runs.EventLateResult},
		{At: at(4), Kind: runs.EventSettled},
		{At: at(5), Kind: runs.EventCancelRequested},
		{At: at(3), Kind: runs.EventSuspended},
	}
	story := runs.Timeline(run, kept)
	var kinds []runs.EventKind
	for _, e := range story {
		kinds = append(kinds, e.Kind)
	}
	require.Equal(t, append(runs.EventKinds(), runs.EventLateResult), kinds)
	require.True(t, story[6].At.Before(story[7].At))
	require.Equal(t, int64(7), story[0].ClaimToken)
	require.Equal(t, "gone", story[5].Error)
	require.Equal(t, run.Decision, story[5].Decision)

	run.FinishedAt, run.Outcome = time.Time{}, runs.Outcome{Status: runs.Running}
	require.Len(t, runs.Timeline(run, nil), 2, "a live run has no end yet")
	run.ClaimedAt, run.StartedAt, run.FinishedAt, run.Outcome.Status = time.Time{}, time.Time{}, at(3), runs.Skipped
	require.Len(t, runs.Timeline(run, nil), 1, "what no worker took has an end alone")
}
