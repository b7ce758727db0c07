package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// thing is something that a check asks for, and that a test breaks.
type thing struct {
	fault atomic.Pointer[error]
	asked atomic.Int64
}

func (th *thing) ask(context.Context) error {
	th.asked.Add(1)
	if fault := th.fault.Load(); fault != nil {
		return *fault
	}
	return nil
}

func TestReportNamesEachCheckAndSinceWhen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var database, claims thing
		health := NewHealth(slog.New(slog.NewTextHandler(&log, nil)),
			Check{Name: "database", Ask: database.ask, Means: "the database does not answer"}, Check{Name: "claims", Ask: claims.ask})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		began := time.Now().UTC()
		go health.Run(ctx)
		synctest.Wait()

		time.Sleep(90*time.Second + askPeriod/2)
		report := health.Report(ctx)
		require.True(t, report.Ready())
		require.Equal(t, []CheckState{{Name: "database", OK: true, Since: began}, {Name: "claims", OK: true, Since: began}}, report.Checks)

		database.fault.Store(new(errors.New("no connection to db.internal")))
		time.Sleep(90 * time.Second)
		report = health.Report(ctx)
		broke := began.Add(91 * time.Second)
		require.Equal(t, NotReady, report.Status)
		require.Equal(t, CheckState{Name: "database", Since: broke, Error: "the database does not answer"}, report.Checks[0], "nobody probed, and still it is known since when")
		require.True(t, report.Checks[1].OK)
		require.Equal(t, "not ready: database: the database does not answer, since "+broke.Format(time.RFC3339), report.String())

		database.fault.Store(nil)
		time.Sleep(askPeriod)
		require.True(t, health.Report(ctx).Ready())
		require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("db.internal")), "a change is logged once, with its cause:\n%s", &log)
		require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("ready again")))
	})
}

func TestFrequentProbesShareTheCachedReport(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var database thing
		health := NewHealth(slog.New(slog.DiscardHandler), Check{Name: "database", Ask: database.ask})
		for range 1000 {
			health.Report(t.Context())
			time.Sleep(time.Millisecond)
		}
		require.EqualValues(t, time.Second/askLife, database.asked.Load())
	})
}

func TestHangingCheckFailsAtItsTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		health := NewHealth(slog.New(slog.DiscardHandler), Check{Name: "a", Ask: hang}, Check{Name: "b", Ask: hang})
		began := time.Now()

		report := health.Report(t.Context())

		require.False(t, report.Ready())
		require.False(t, report.Checks[0].OK || report.Checks[1].OK)
		require.Equal(t, askTimeout, time.Since(began), "both are asked at once")
	})
}

func TestAbortedProbeDoesNotFailAnyCheck(t *testing.T) {
	t.Parallel()
	gone, leave := context.WithCancel(t.Context())
	leave()
	health := NewHealth(slog.New(slog.DiscardHandler), Check{Name: "database", Ask: func(ctx context.Context) error { return ctx.Err() }})

	require.True(t, health.Report(gone).Ready())
}

func TestReadyzNamesFailedChecksWhileHealthzSucceeds(t *testing.T) {
	t.Parallel()
	var claims thing
	claims.fault.Store(new(errors.New("no claim has succeeded for 3s")))
	admin := Admin(prometheus.NewRegistry(), NewHealth(slog.New(slog.DiscardHandler), Check{Name: "claims", Ask: claims.ask}))

	ready := get(admin, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, ready.Code)
	require.Equal(t, "application/json", ready.Header().Get("Content-Type"))
	var report Report
	require.NoError(t, json.Unmarshal(ready.Body.Bytes(), &report))
	require.Equal(t, NotReady, report.Status)
	require.Equal(t, "claims", report.Checks[0].Name)
	require.Equal(t, "no claim has succeeded for 3s", report.Checks[0].Error)
	require.WithinDuration(t, time.Now(), report.Checks[0].Since, time.Minute)
	require.Equal(t, http.StatusOK, get(admin, "/healthz").Code)
}
