package telemetry

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// fakeDatabase answers as the test sets it.
type fakeDatabase struct {
	state DatabaseState
	err   error
	hangs bool
	reads int
}

func (f *fakeDatabase) ReadDatabase(ctx context.Context) (DatabaseState, error) {
	f.reads++
	if f.hangs {
		<-ctx.Done()
		return DatabaseState{}, ctx.Err()
	}
	return f.state, f.err
}

func TestDatabaseMetricsMatchTheState(t *testing.T) {
	t.Parallel()
	database := NewDatabase(&fakeDatabase{state: DatabaseState{
		Due: 3, OldestDue: 1500 * time.Millisecond, Workers: map[string]int64{"active": 2, "silent": 1}, OldestSnapshot: time.Hour,
		Hosts: map[string]int64{"open": 4, "limited": 1}, DeadLetters: 7,
	}}, slog.New(slog.DiscardHandler))

	require.NoError(t, testutil.CollectAndCompare(database, strings.NewReader(`
# HELP rubato_database_oldest_snapshot_seconds Age of the oldest transaction in the database that keeps vacuum from removing old rows.
# TYPE rubato_database_oldest_snapshot_seconds gauge
rubato_database_oldest_snapshot_seconds 3600
# HELP rubato_database_up 1 if the last read of the database succeeded; while it is 0, the other metrics of the database are absent.
# TYPE rubato_database_up gauge
rubato_database_up 1
# HELP rubato_dead_letters_open Dead letters that were neither replayed nor discarded, counted up to 10000.
# TYPE rubato_dead_letters_open gauge
rubato_dead_letters_open 7
# HELP rubato_hosts Target hosts whose circuit breaker is open or half-open, and those with an adaptive limit, each counted up to 10000.
# TYPE rubato_hosts gauge
rubato_hosts{state="half_open"} 0
rubato_hosts{state="limited"} 1
rubato_hosts{state="open"} 4
# HELP rubato_schedule_due Due endpoints that no worker has claimed, counted up to 10000.
# TYPE rubato_schedule_due gauge
rubato_schedule_due 3
# HELP rubato_schedule_oldest_due_seconds Time since the planned time of the oldest due endpoint that is not claimed; 0 if there is none.
# TYPE rubato_schedule_oldest_due_seconds gauge
rubato_schedule_oldest_due_seconds 1.5
# HELP rubato_workers Workers by state; silent ones have sent no heartbeat for 6 s and have not signed off.
# TYPE rubato_workers gauge
rubato_workers{state="active"} 2
rubato_workers{state="draining"} 0
rubato_workers{state="inactive"} 0
rubato_workers{state="silent"} 1
`)))
}

func TestHolderOfAnOldSnapshotIsLoggedOnceInTenMinutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		holder := SnapshotHolder{PID: 7, User: "reports", Application: "psql", Client: "10.0.0.9", State: "idle in transaction", Command: "SELECT"}
		reader := &fakeDatabase{state: DatabaseState{OldestSnapshot: 59 * time.Second, SnapshotHolder: holder}}
		database := NewDatabase(reader, slog.New(slog.NewTextHandler(&log, nil)))
		scrape := func() int {
			time.Sleep(readLife)
			testutil.CollectAndCount(database)
			return bytes.Count(log.Bytes(), []byte("level=WARN"))
		}
		require.Zero(t, scrape(), "younger than a minute")

		reader.state.OldestSnapshot = 90 * time.Second
		require.Equal(t, 1, scrape())
		require.Contains(t, log.String(), `open_for=1m30s pid=7 user=reports application=psql client=10.0.0.9 session_state="idle in transaction" command=SELECT`)
		require.Equal(t, 1, scrape(), "the same transaction")
		reader.state.SnapshotHolder.PID = 8
		require.Equal(t, 2, scrape(), "another one")
		time.Sleep(holderAgain)
		require.Equal(t, 3, scrape(), "still there")
	})
}

func TestScrapesShareOneReadOfTheDatabase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reader := &fakeDatabase{}
		database := NewDatabase(reader, slog.New(slog.DiscardHandler))
		for range 10 { // Two scrapers, each once a second.
			var scrapes sync.WaitGroup
			for range 2 {
				scrapes.Go(func() { testutil.CollectAndCount(database) })
			}
			scrapes.Wait()
			time.Sleep(time.Second)
		}
		require.Equal(t, 2, reader.reads)
	})
}

func TestUnreachableDatabaseExposesNoStaleMetrics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		reader := &fakeDatabase{state: DatabaseState{Due: 3}}
		database := NewDatabase(reader, slog.New(slog.NewTextHandler(&log, nil)))
		require.Equal(t, 12, testutil.CollectAndCount(database))

		reader.err = errors.New("no connection")
		for range 3 {
			time.Sleep(readLife)
			require.Equal(t, 1, testutil.CollectAndCount(database))
			require.NoError(t, testutil.CollectAndCompare(database, strings.NewReader(
				"# HELP rubato_database_up 1 if the last read of the database succeeded; while it is 0, the other metrics of the database are absent.\n"+
					"# TYPE rubato_database_up gauge\nrubato_database_up 0\n")))
		}
		require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("no connection")), "an outage is told once")

		reader.err = nil
		time.Sleep(readLife)
		require.Equal(t, 12, testutil.CollectAndCount(database))
	})
}

func TestScrapeTimesOutWithAHangingDatabase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		database := NewDatabase(&fakeDatabase{hangs: true}, slog.New(slog.DiscardHandler))
		began := time.Now()
		require.Equal(t, 1, testutil.CollectAndCount(database))
		require.Equal(t, readTimeout, time.Since(began))
		require.Equal(t, 1, testutil.CollectAndCount(database))
		require.Equal(t, readTimeout, time.Since(began), "the next scrape does not wait again")
	})
}

func TestPanicsOfAllPlacesShareOneMetric(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	Panics(r, InSweep).Inc()
	Panics(r, InSweep).Inc()
	Panics(r, InRun).Inc()

	require.NoError(t, testutil.GatherAndCompare(r, strings.NewReader(`
# HELP rubato_panics_total Contained panics, by source.
# TYPE rubato_panics_total counter
rubato_panics_total{source="analysis"} 0
rubato_panics_total{source="notice"} 0
rubato_panics_total{source="request"} 0
rubato_panics_total{source="run"} 1
rubato_panics_total{source="sweep"} 2
`)))
}
