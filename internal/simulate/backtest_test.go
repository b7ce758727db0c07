package simulate_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/errs"
	"rubato/internal/simulate"
)

var recordedFrom = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// looks returns a look a minute: digests by letter, '=' for status 304, '!' for a failure.
func looks(answers string) []simulate.Look {
	list := make([]simulate.Look, len(answers))
	for i, answer := range answers {
		list[i] = simulate.Look{
			At:        recordedFrom.Add(time.Duration(i) * time.Minute),
			Failed:    answer == '!',
			Unchanged: answer == '=',
			Digest:    uint64(answer),
		}
	}
	return list
}

func backtest(t *testing.T, answers string, policies ...any) []simulate.BacktestRow {
	t.Helper()
	b, err := reader().ReadBacktest(map[string]any{"name": "one", "baselineIntervalMs": 60000.0}, policies, looks(answers))
	require.NoError(t, err)
	rows, err := b.Run(t.Context())
	require.NoError(t, err)
	return rows
}

func TestBacktestBoundsDelays(t *testing.T) {
	t.Parallel()
	rows := backtest(t, "aabb=c==", "off", map[string]any{"name": "half", "planner": "off", "baselineIntervalMs": 120000})
	minutes := func(least, most float64) simulate.Range {
		return simulate.Range{Least: least * 60000, Most: most * 60000}
	}
	recorded, off, half := rows[0], rows[1], rows[2]
	require.Equal(t, simulate.Recorded, recorded.Policy)
	require.Equal(t, simulate.Range{Least: 8, Most: 8}, recorded.Polls)
	require.EqualValues(t, 2, recorded.Changes, "to b and to c")
	require.Equal(t, minutes(0, 1), recorded.MeanDelayMs)
	require.Equal(t, recorded.Polls, off.Polls)
	require.InDelta(t, recorded.MeanDelayMs.Most, off.MeanDelayMs.Most, 0.001, "the shipped governor repeats what it did")
	require.Zero(t, off.MeanDelayMs.Least)
	// Every two minutes: b is seen at 2, as on record; c, of after 4 and up to 5, is seen at 6.
	require.Equal(t, simulate.Range{Least: 4, Most: 4}, half.Polls)
	require.InDelta(t, 30000, half.MeanDelayMs.Least, 0.001)
	require.InDelta(t, 90000, half.MeanDelayMs.Most, 0.001)
}

// A policy is scored against the record in each world, so that the bounds are those of the truth.
func TestBacktestScoresAPolicyAgainstTheRecord(t *testing.T) {
	t.Parallel()
	rows := backtest(t, "aabb=c==", "off", map[string]any{"name": "half", "planner": "off", "baselineIntervalMs": 120000})
	recorded, off, half := rows[0], rows[1], rows[2]
	require.Nil(t, recorded.PollsSaved)
	require.Nil(t, recorded.SoonerMs)
	require.Equal(t, &simulate.Range{}, off.PollsSaved)
	require.InDelta(t, 0, off.SoonerMs.Least, 0.001)
	require.InDelta(t, 0, off.SoonerMs.Most, 0.001)
	require.Equal(t, &simulate.Range{Least: 0.5, Most: 0.5}, half.PollsSaved)
	// c is found a minute later than on record, b at the same time: half a minute later on average.
	require.InDelta(t, -30000, half.SoonerMs.Least, 0.001)
	require.InDelta(t, -30000, half.SoonerMs.Most, 0.001)

	still := backtest(t, "aaaa", "off")
	require.NotNil(t, still[1].PollsSaved)
	require.Nil(t, still[1].SoonerMs, "nothing was there to find")
}

// A policy meets the recorded outages, in which it finds nothing.
func TestBacktestRepeatsOutages(t *testing.T) {
	t.Parallel()
	rows := backtest(t, "aa!!!b=", map[string]any{"name": "often", "planner": "off", "baselineIntervalMs": 10000, "maxIntervalMs": 10000})
	require.EqualValues(t, 1, rows[0].Changes)
	require.Equal(t, simulate.Range{Least: 0, Most: 240000}, rows[0].MeanDelayMs, "from 1 to 5 minutes")
	require.Equal(t, simulate.Range{Least: 37, Most: 37}, rows[1].Polls)
	require.InDelta(t, 0, rows[1].MeanDelayMs.Least, 0.001)
	require.InDelta(t, 10000, rows[1].MeanDelayMs.Most, 0.001, "a change before the outage is found before it")
}

func TestBacktestNeedsAnswersToCompare(t *testing.T) {
	t.Parallel()
	for _, answers := range []string{"", "a", "!!!", "===", "a!!"} {
		b, err := reader().ReadBacktest(map[string]any{"name": "one", "baselineIntervalMs": 60000.0}, []any{"off"}, looks(answers))
		require.NoError(t, err)
		_, err = b.Run(t.Context())
		require.ErrorIs(t, err, simulate.ErrTooFewLooks, answers)
	}
	_, err := reader().ReadBacktest(map[string]any{"name": "one", "baselineIntervalMs": 60000.0}, []any{"best", map[string]any{"name": "x", "jitterMs": -1}}, nil)
	fields := errs.FieldsOf(err)
	require.Len(t, fields, 2)
	require.Equal(t, "policies[0]", fields[0].Field)
	require.Equal(t, "policies[1].jitterMs", fields[1].Field)
}
