package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/client"
	"rubato/internal/devpg/devpgtest"
)

const everySecond = 1000

// A new installation records a run for every second of the grid, and calls the target once for
// each.
func TestDevRunsAnEndpointOnEverySecond(t *testing.T) {
	t.Parallel()
	tgt, _ := newTarget(t)
	dev := startDev(t, devpgtest.Dir(t))
	e := dev.register(t, client.EndpointSpec{Name: "tick", URL: tgt.URL + "/tick", BaselineIntervalMs: new(int64(everySecond))})

	runs := dev.awaitRuns(t, e.ID, 4)

	// A machine that stands still for a second makes a run late or skips one. The grid counts from
	// a late start, and a skip is on record.
	runs = slices.DeleteFunc(runs, func(r client.Run) bool { return r.Status == client.RunStatusSkipped })
	require.NotEmpty(t, runs)
	for i, r := range runs {
		require.Equal(t, client.RunStatusSucceeded, r.Status)
		require.NotNil(t, r.StartedAt)
		late := r.StartedAt.Sub(r.ScheduledFor)
		require.GreaterOrEqual(t, late, time.Duration(0), "never early")
		if i > 0 && late <= time.Second {
			require.Zero(t, runs[i-1].ScheduledFor.Sub(r.ScheduledFor)%time.Second, "on the grid, without drift")
		}
	}
	full := read[client.Run](t)(dev.GetRun(t.Context(), runs[0].ID))
	require.Equal(t, int32(200), *full.StatusCode)
	require.Equal(t, "hello from /tick", *full.Body)
	require.NotNil(t, full.Decision)
	require.True(t, full.Decision.NextRunAt.After(full.ScheduledFor))

	sent := map[string]int{}
	for _, header := range tgt.requests("/tick") {
		sent[header.Get("Rubato-Run-Id")]++
		require.NotEmpty(t, header.Get("Rubato-Fence"))
	}
	for _, r := range runs {
		require.Equal(t, 1, sent[r.ID], "one request for one run")
	}
	dev.interrupt(t)
}

// Pause, resume, run now and hints act at once.
func TestOperationsActAtOnce(t *testing.T) {
	t.Parallel()
	tgt, _ := newTarget(t)
	dev := startDev(t, devpgtest.Dir(t))
	clock := dev.register(t, client.EndpointSpec{Name: "clock", URL: tgt.URL + "/clock", BaselineIntervalMs: new(int64(everySecond))})
	e := dev.register(t, client.EndpointSpec{Name: "tick", URL: tgt.URL + "/tick", BaselineIntervalMs: new(int64(everySecond))})
	dev.awaitRuns(t, e.ID, 2)

	paused := read[client.Endpoint](t)(dev.PauseEndpoint(t.Context(), e.ID, client.PauseRequest{Reason: new("lunch")}))
	require.Equal(t, client.EndpointState("paused"), paused.State)
	require.True(t, paused.PausedIndefinitely)
	require.Nil(t, paused.NextRunAt)
	eventually(t, "the run in progress to end", func() bool { return dev.endpoint(t, e.ID).Running == nil })
	before := len(tgt.requests("/tick"))
	dev.awaitRuns(t, clock.ID, len(dev.finished(t, clock.ID))+3)
	require.Len(t, tgt.requests("/tick"), before, "while the clock ticked three times, nothing ran")

	planned := read[client.PlannedRun](t)(dev.RunEndpoint(t.Context(), e.ID, client.OneOffRun{}))
	// It need not be the newest: due times that the pause skips are also recorded.
	eventually(t, "the run now of a paused endpoint", func() bool {
		return slices.ContainsFunc(dev.finished(t, e.ID), func(r client.Run) bool { return r.ID == planned.RunID && r.Source == "manual" })
	})
	require.Len(t, tgt.requests("/tick"), before+1)

	resumed := read[client.Endpoint](t)(dev.ResumeEndpoint(t.Context(), e.ID))
	require.NotNil(t, resumed.NextRunAt, "a resume acts at once")
	require.Less(t, time.Until(*resumed.NextRunAt), everySecond*time.Millisecond+time.Millisecond)
	eventually(t, "a run after the resume", func() bool { return len(tgt.requests("/tick")) > before+1 })

	hourly := dev.register(t, client.EndpointSpec{Name: "hourly", URL: tgt.URL + "/hourly", BaselineIntervalMs: new(int64(3600000))})
	dev.awaitRuns(t, hourly.ID, 1)
	read[client.Endpoint](t)(dev.PutOneShotHint(t.Context(), hourly.ID, client.OneShotHintRequest{InMs: new(int64(200)), TTLMs: new(int64(60000))}))
	require.Equal(t, client.Source("ai-oneshot"), dev.awaitRuns(t, hourly.ID, 2)[0].Source)
	hinted := read[client.Endpoint](t)(dev.PutIntervalHint(t.Context(), hourly.ID, client.IntervalHintRequest{IntervalMs: everySecond, TTLMs: new(int64(60000)), Reason: new("flash sale")}))
	require.Equal(t, client.Source("ai-interval"), *hinted.NextSource)
	require.Equal(t, client.Source("ai-interval"), dev.awaitRuns(t, hourly.ID, 4)[0].Source)
	read[client.Endpoint](t)(dev.ClearHints(t.Context(), hourly.ID))
	eventually(t, "the baseline to be back", func() bool {
		source := dev.endpoint(t, hourly.ID).NextSource
		return source != nil && *source == "baseline-interval"
	})
}

func TestCronPreviewFollowsItsZone(t *testing.T) {
	t.Parallel()
	tgt, _ := newTarget(t)
	dev := startDev(t, devpgtest.Dir(t))
	e := dev.register(t, client.EndpointSpec{
		Name: "daily", URL: tgt.URL, BaselineCron: new("30 9 * * *"), Timezone: new("America/New_York"),
	})
	zone, err := time.LoadLocation("America/New_York")
	require.NoError(t, err)

	items := read[client.Preview](t)(dev.PreviewEndpoint(t.Context(), e.ID, &client.PreviewEndpointParams{N: new(int32(3))})).Items

	require.Len(t, items, 3)
	require.Equal(t, *e.NextRunAt, items[0].At)
	for _, item := range items {
		require.Equal(t, "09:30:00", item.At.In(zone).Format("15:04:05"))
	}
}

func TestRestartKeepsEverything(t *testing.T) {
	t.Parallel()
	tgt, _ := newTarget(t)
	dir := devpgtest.Dir(t)
	for name, stop := range map[string]func(*server){
		"an interrupt": func(s *server) { s.interrupt(t) },
		"a kill": func(s *server) {
			s.signal(t, syscall.SIGKILL)
			<-s.ended
		},
	} {
		dev := startDev(t, dir)
		e := dev.register(t, client.EndpointSpec{Name: "tick", URL: tgt.URL + "/tick", BaselineIntervalMs: new(int64(everySecond))})
		run := dev.awaitRuns(t, e.ID, 2)[0]
		before := len(tgt.requests("/tick"))
		stop(dev)

		again := startDev(t, dir)
		require.Equal(t, dev.Key, again.Key, "the key outlives %s", name)
		require.Equal(t, e.Name, again.endpoint(t, e.ID).Name, "the endpoint outlives %s", name)
		require.Equal(t, run.ScheduledFor, read[client.Run](t)(again.GetRun(t.Context(), run.ID)).ScheduledFor)
		eventually(t, "runs after "+name, func() bool { return len(tgt.requests("/tick")) > before+1 })
		_, err := again.ArchiveEndpoint(t.Context(), e.ID, nil)
		require.NoError(t, err)
		again.interrupt(t)
	}
}

// A hanging run neither delays the stop of the server nor is recorded as failed.
func TestStoppingDoesNotWaitForATargetThatHangs(t *testing.T) {
	t.Parallel()
	tgt, _ := newTarget(t)
	dev := startDev(t, devpgtest.Dir(t))
	e := dev.register(t, client.EndpointSpec{
		Name: "hang", URL: tgt.URL + "/hang", Method: new(client.Method("POST")), BaselineIntervalMs: new(int64(3600000)),
	})
	eventually(t, "the request to hang", func() bool { return len(tgt.requests("/hang")) == 1 })

	dev.interrupt(t)

	again := startDev(t, dev.dataDir)
	run := again.awaitRuns(t, e.ID, 1)[0]
	require.Equal(t, client.RunStatusLost, run.Status)
	require.Equal(t, "shutdown", *run.ReasonCode)
	require.Zero(t, again.endpoint(t, e.ID).FailureCount, "the target has not failed")
}

func TestSecondInterruptStopsAtOnce(t *testing.T) {
	t.Parallel()
	tgt, _ := newTarget(t)
	dev := startDevWith(t, []string{"RUBATO_SHUTDOWN_GRACE=2m"}, devpgtest.Dir(t))
	dev.register(t, client.EndpointSpec{Name: "hang", URL: tgt.URL + "/hang", BaselineIntervalMs: new(int64(3600000))})
	eventually(t, "the request to hang", func() bool { return len(tgt.requests("/hang")) == 1 })

	dev.signal(t, syscall.SIGINT)
	eventually(t, "the API to stop", func() bool {
		res, err := dev.GetHealth(t.Context())
		if err != nil {
			return true
		}
		_ = res.Body.Close()
		return false
	})
	second := time.Now()
	dev.signal(t, syscall.SIGINT)
	<-dev.ended
	require.Less(t, time.Since(second), patience, "runs may go on for 2 min after the first")
	require.Error(t, dev.err, "ended by the signal")
	startDev(t, dev.dataDir).interrupt(t)
}

func TestSecondDevServerOnADataDirIsRefused(t *testing.T) {
	t.Parallel()
	dev := startDev(t, devpgtest.Dir(t))

	second := start(t, t.TempDir(), nil, "rubato", "dev", "--listen", "127.0.0.1:0", "--data-dir", dev.dataDir)

	require.Equal(t, 1, second.wait(t, patience))
	require.Contains(t, second.output(), dev.dataDir+": stop it, or give this one another --data-dir")
	dev.interrupt(t)
}

func TestBusyPortIsReportedBeforeAnyStart(t *testing.T) {
	t.Parallel()
	tgt, _ := newTarget(t)
	busy := strings.TrimPrefix(tgt.URL, "http://")
	dir := devpgtest.Dir(t)

	p := start(t, t.TempDir(), nil, "rubato", "dev", "--listen", busy, "--data-dir", dir)

	require.Equal(t, 1, p.wait(t, patience))
	require.Contains(t, p.output(), "another program listens on "+busy+" already: stop it, or choose another address with --listen")
	require.NoDirExists(t, filepath.Join(dir, "postgres"))
}

// The command line finds the running server by the credentials file, which scripts rely on.
func TestCommandLineFindsTheRunningServer(t *testing.T) {
	t.Parallel()
	dev := startDev(t, devpgtest.Dir(t), "--demo")
	info, err := os.Stat(filepath.Join(dev.dataDir, "credentials.json"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	eventually(t, "the demo's endpoints", func() bool {
		list := start(t, dev.home, nil, "rubato", "endpoints", "list")
		require.Equal(t, 0, list.wait(t, patience), list.output())
		return strings.Count(list.output(), "demo-") == 6
	})
	watch := start(t, dev.home, nil, "rubato", "runs", "watch", "--count", "3", "--endpoint", "demo-heartbeat")
	require.Equal(t, 0, watch.wait(t, patience), watch.output())
	require.Equal(t, 3, strings.Count(watch.output(), "succeeded"), watch.output())
	dev.interrupt(t)

	gone := start(t, dev.home, nil, "rubato", "endpoints", "list")
	require.Equal(t, 1, gone.wait(t, patience))
	require.Contains(t, gone.output(), "no dev server runs here")
}

func TestDemoIsTheSameAfterARestart(t *testing.T) {
	t.Parallel()
	dev := startDev(t, devpgtest.Dir(t), "--demo")
	first := demoEndpoints(t, dev.api)
	dev.interrupt(t)

	again := startDev(t, dev.dataDir, "--demo")
	eventually(t, "the endpoints to be led to the new port", func() bool {
		second := demoEndpoints(t, again.api)
		for key, e := range first {
			require.Equal(t, e.ID, second[key].ID, "registered once")
			if second[key].URL == e.URL {
				return false
			}
		}
		return true
	})
	restarted := time.Now()
	eventually(t, "a run of the new process to succeed", func() bool {
		return slices.ContainsFunc(again.finished(t, first["demo-heartbeat"].ID), func(r client.Run) bool {
			return r.Status == client.RunStatusSucceeded && r.ScheduledFor.After(restarted)
		})
	})
}

// demoEndpoints waits for the six demo endpoints and returns them by key.
func demoEndpoints(t *testing.T, a *api) map[string]client.Endpoint {
	t.Helper()
	found := map[string]client.Endpoint{}
	eventually(t, "the demo's endpoints", func() bool {
		for _, e := range read[client.EndpointList](t)(a.ListEndpoints(t.Context(), &client.ListEndpointsParams{})).Items {
			found[*e.Key] = e
		}
		return len(found) == 6
	})
	return found
}
