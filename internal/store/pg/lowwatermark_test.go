package pg_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/store/pg"
)

// scan moves a mark by a scan at an instant of the database's clock, and returns where it started.
func scan(t *testing.T, m *pg.LowWaterMark, now, lowest time.Time) (from *time.Time) {
	t.Helper()
	err := m.Find(func(at *time.Time) (time.Time, time.Time, error) {
		from = at
		return now, lowest, nil
	})
	require.NoError(t, err)
	return from
}

// TestLowWaterMarkIsTheLowestEntry requires a mark that passes nothing that is due, and otherwise
// follows the database's time at a distance.
func TestLowWaterMarkIsTheLowestEntry(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 6, 15, 12, 0, 0, 0, time.UTC)
	var m pg.LowWaterMark
	require.Nil(t, m.From(), "nothing is known yet")
	scan(t, &m, now, now)
	require.Equal(t, now.Add(-10*time.Second), *m.From())
	scan(t, &m, now.Add(time.Hour), now.Add(5*time.Second))
	require.Equal(t, now.Add(5*time.Second), *m.From(), "an entry is due for an hour")
	scan(t, &m, now.Add(time.Hour), now.Add(time.Hour-time.Second))
	require.Equal(t, now.Add(time.Hour-10*time.Second), *m.From())
	m.Reset()
	require.Nil(t, m.From())
}

// TestFullScansForALowWaterMarkAreAsFrequentAsTheirCostAllows scans every second for ten minutes.
func TestFullScansForALowWaterMarkAreAsFrequentAsTheirCostAllows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		takes time.Duration // a full scan
		want  int
	}{
		"Fast":     {takes: time.Millisecond, want: 600},
		"Slow":     {takes: 99 * time.Millisecond, want: 60},
		"VerySlow": {takes: 10 * time.Second, want: 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var m pg.LowWaterMark
				full := 0
				for began := time.Now(); time.Since(began) < 10*time.Minute; {
					tick := time.After(time.Second)
					err := m.Find(func(from *time.Time) (time.Time, time.Time, error) {
						if from == nil {
							full++
							time.Sleep(c.takes)
						}
						return time.Now(), time.Now(), nil
					})
					require.NoError(t, err)
					<-tick
				}
				require.Equal(t, c.want, full)
			})
		})
	}
}

// TestLowWaterMarkFollowsAClockThatIsSetBack requires full scans until the mark follows the new
// time.
func TestLowWaterMarkFollowsAClockThatIsSetBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		var m pg.LowWaterMark
		err := m.Find(func(from *time.Time) (time.Time, time.Time, error) {
			require.Nil(t, from)
			time.Sleep(30 * time.Second)
			return now, now, nil
		})
		require.NoError(t, err)
		require.NotNil(t, scan(t, &m, now.Add(-time.Hour), now.Add(-time.Hour)))
		require.Nil(t, m.From())
		require.Nil(t, scan(t, &m, now.Add(-time.Hour), now.Add(-time.Hour)))
		require.Equal(t, now.Add(-time.Hour-10*time.Second), *m.From())
	})
}

// TestLowWaterMarkSurvivesAScanThatFails requires that a full scan that fails is not repeated at
// once.
func TestLowWaterMarkSurvivesAScanThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		now, failed := time.Now(), errors.New("it took too long")
		var m pg.LowWaterMark
		scan(t, &m, now, now)
		err := m.Find(func(from *time.Time) (time.Time, time.Time, error) {
			require.Nil(t, from)
			time.Sleep(2 * time.Second)
			return time.Time{}, time.Time{}, failed
		})
		require.ErrorIs(t, err, failed)
		require.Equal(t, now.Add(-10*time.Second), *m.From())
		require.NotNil(t, scan(t, &m, now, now))
	})
}
