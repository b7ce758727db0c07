package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// program is the bench command, built once.
var program string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "rubato-smoke-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "bench")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", program, "./test/bench")
	build.Dir = "../.."
	build.Stdout, build.Stderr = os.Stdout, os.Stderr
	if err := build.Run(); err != nil {
		panic(fmt.Sprintf("building the bench command: %v", err))
	}
	return m.Run()
}

// measure is what every contender reports.
type measure struct {
	RunsPerSecond float64
	StartLagMs    struct{ P50, P99 float64 }
	CPU           map[string]float64 `json:"cpuSecondsPer1000"`
	PeakMemoryMiB float64
	Completed     int
	Missing       int
	EarlyStarts   int
	Duplicates    int
}

// apiReport holds the measurements of the API.
type apiReport struct {
	RunNowMs      struct{ P99 float64 }
	Registrations struct{ PerSecond float64 }
	Operations    struct {
		RunMs, PauseMs, HintMs, RunSentMs struct{ P99, Max float64 }
		Asked, Left, Refused, Unsent      int
	}
}

// report is the output of a bench.
type report struct {
	measure

	Command    string
	Ceilings   map[string]float64
	Peers      map[string]float64
	Contenders map[string]measure
	GapErrorMs map[string]float64
	Claims     []struct {
		Registered, Claimed, Claimers, Statements int
		Snapshot                                  bool
	}
	Calls *struct {
		PerSecond, SentPerSecond float64
		StoredMs, RequestMs      struct{ P99 float64 }
		Unsent                   int
	}
	API   *apiReport
	Mixed *struct {
		apiReport

		Isolation struct{ RatioP99 float64 }
		Tenants   struct{ LagMs, Ratio, SharedRatio float64 }
		Idle      struct{ TransactionsPerSecond float64 }
		Memory    struct{ PeakMiB float64 }
	}
	Soak *struct {
		Samples int
		Trends  []struct {
			Name        string
			Median, Max float64
		}
	}
	Snapshot *struct {
		AgeSeconds    float64
		Without, With struct {
			measure

			ExpiredClaims int
		}
	}
	DeadHosts *struct {
		Endpoints, Hosts int
		Without, With    measure
	}
	Tempo []struct {
		Name, Policy string
		Polls        int
		Simulated    struct {
			Name  string
			Polls int
		}
	}
	Machine map[string]any
	Notes   []string
}

// runBench runs a command outside the source tree and returns its report. A short horizon keeps the
// wait for the first claim short.
func runBench(t *testing.T, args ...string) report {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, append(args, "-o", "json", "--set", "RUBATO_HORIZON=1s")...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.TempDir(), &out, &errs
	require.NoError(t, cmd.Run(), "%s", errs.String())
	var r report
	decoder := json.NewDecoder(&out)
	require.NoError(t, decoder.Decode(&r))
	require.False(t, decoder.More(), "more than one object on standard output")
	require.NotContains(t, errs.String(), "\r", "progress bars are for terminals")
	return r
}

// requireWhole fails unless everything ran, once, and not before its time.
func requireWhole(t *testing.T, m measure, runs int) {
	t.Helper()
	require.Equal(t, runs, m.Completed, "%+v", m)
	require.Zero(t, m.Missing)
	require.Zero(t, m.EarlyStarts)
	require.Zero(t, m.Duplicates)
	require.Positive(t, m.RunsPerSecond)
	require.Positive(t, m.StartLagMs.P99)
	require.GreaterOrEqual(t, m.StartLagMs.P99, m.StartLagMs.P50)
}

func TestABurstIsWhole(t *testing.T) {
	t.Parallel()
	const endpoints = 200
	r := runBench(t, "burst", "--endpoints", fmt.Sprint(endpoints))

	require.Equal(t, "burst", r.Command)
	requireWhole(t, r.measure, endpoints)
	for _, name := range []string{"bareClient", "idealPipeline", "fencedPipeline", "rubato"} {
		requireWhole(t, r.Contenders[name], endpoints)
	}
	require.Equal(t, r.Contenders["bareClient"].RunsPerSecond, r.Ceilings["bareClientPerSecond"])
	require.Equal(t, r.Contenders["idealPipeline"].RunsPerSecond, r.Ceilings["idealPipelinePerSecond"])
	require.Equal(t, r.Contenders["fencedPipeline"].RunsPerSecond, r.Ceilings["fencedPipelinePerSecond"])
	require.Positive(t, r.CPU["worker"]+r.CPU["postgres"])
	require.Positive(t, r.PeakMemoryMiB)
	require.NotEmpty(t, r.Machine["postgres"])
	require.Len(t, r.Notes, 1, "River is not to be had outside the source tree, and that is said")
	require.Empty(t, r.Peers)
}

func TestGapsAndClaimsAreMeasured(t *testing.T) {
	t.Parallel()
	gaps := runBench(t, "steady", "--gap", "10", "--for", "3s")
	requireWhole(t, gaps.measure, 30)
	require.Contains(t, gaps.GapErrorMs, "p99")

	claims := runBench(t, "scale", "--no-bursts", "--registered", "2000", "--claimed", "400,4000", "--claimers", "1,2", "--for", "200ms")
	require.Len(t, claims.Claims, 4, "4,000 of 2,000 cannot be claimed")
	for _, c := range claims.Claims {
		require.Equal(t, 2000, c.Registered)
		require.Positive(t, c.Statements)
	}
}

func TestASteadyLoadIsMeasuredBesideASnapshot(t *testing.T) {
	t.Parallel()
	r := runBench(t, "steady", "--snapshot", "4s", "--rate", "40", "--every", "3s", "--for", "2s")

	require.NotNil(t, r.Snapshot)
	require.Equal(t, 4.0, r.Snapshot.AgeSeconds)
	requireWhole(t, r.Snapshot.Without.measure, 80)
	requireWhole(t, r.Snapshot.With.measure, 80)
	require.Positive(t, r.Snapshot.With.CPU["postgres"])
	require.Zero(t, r.Snapshot.Without.ExpiredClaims+r.Snapshot.With.ExpiredClaims)
	require.Equal(t, r.measure, r.Snapshot.Without.measure)
}

func TestSteadyLoadIsMeasuredBesideDeadHosts(t *testing.T) {
	t.Parallel()
	r := runBench(t, "steady", "--dead", "25", "--rate", "20", "--every", "12s", "--for", "3s")

	require.NotNil(t, r.DeadHosts)
	require.Equal(t, 3, r.DeadHosts.Hosts)
	requireWhole(t, r.DeadHosts.Without, 60)
	requireWhole(t, r.DeadHosts.With, 60)
	require.Equal(t, r.measure, r.DeadHosts.Without)
}

func TestTheTempoIsMeasuredBesideItsSimulation(t *testing.T) {
	t.Parallel()
	scenario := filepath.Join(t.TempDir(), "scenario.yaml")
	require.NoError(t, os.WriteFile(scenario, []byte(`
policies: [fixed, {name: act, planner: act, budget: 3600/h}]
endpoints:
  - key: one
    baselineIntervalMs: 1000
    minIntervalMs: 1000
    process: {kind: poisson, rate: 1}
`), 0o600))
	r := runBench(t, "tempo", scenario, "--for", "4s", "--seeds", "2")

	require.Len(t, r.Tempo, 2)
	for i, policy := range []string{"fixed", "act"} {
		require.Equal(t, policy, r.Tempo[i].Policy)
		require.Positive(t, r.Tempo[i].Polls)
		require.LessOrEqual(t, r.Tempo[i].Polls, 5)
		require.Equal(t, "one", r.Tempo[i].Simulated.Name)
		require.Positive(t, r.Tempo[i].Simulated.Polls)
	}
}

func TestTheAPIIsMeasured(t *testing.T) {
	t.Parallel()
	r := runBench(t, "api", "--for", "2s", "--rate", "20", "--run-now", "5", "--register", "50", "--operate", "40")

	require.NotNil(t, r.API)
	require.Positive(t, r.API.RunNowMs.P99)
	require.Positive(t, r.API.Registrations.PerSecond)
	o := r.API.Operations
	require.Equal(t, 80, o.Asked)
	require.Less(t, o.Left+o.Refused, o.Asked)
	for _, took := range []float64{o.RunMs.P99, o.PauseMs.P99, o.HintMs.P99, o.RunSentMs.P99} {
		require.Positive(t, took)
	}
	require.GreaterOrEqual(t, o.RunMs.Max, o.RunMs.P99)
}

func TestCallsAreMeasured(t *testing.T) {
	t.Parallel()
	r := runBench(t, "calls", "--number", "200", "--rate", "50", "--for", "1s")

	require.NotNil(t, r.Calls)
	require.Positive(t, r.Calls.PerSecond)
	require.Positive(t, r.Calls.SentPerSecond)
	require.Positive(t, r.Calls.StoredMs.P99)
	require.Greater(t, r.Calls.RequestMs.P99, 0.0)
	require.Zero(t, r.Calls.Unsent)
}

func TestNeighboursAreMeasured(t *testing.T) {
	t.Parallel()
	if os.Getenv("RUBATO_BENCH") != "long" {
		return // A minute of waiting; the other tests start the same processes.
	}
	r := runBench(t, "mixed", "--for", "3s", "--rate", "50", "--hanging", "10", "--backlog", "200", "--run-now", "10", "--register", "50", "--operate", "40",
		"--registered", "500", "--in-flight", "50", "--idle-for", "1s")

	require.NotNil(t, r.Mixed)
	requireWhole(t, r.measure, 150)
	require.Positive(t, r.Mixed.Isolation.RatioP99)
	require.Positive(t, r.Mixed.Tenants.LagMs)
	require.Positive(t, r.Mixed.Tenants.Ratio)
	require.Positive(t, r.Mixed.Tenants.SharedRatio)
	require.Positive(t, r.Mixed.RunNowMs.P99)
	require.Positive(t, r.Mixed.Registrations.PerSecond)
	for _, took := range []float64{r.Mixed.Operations.RunMs.P99, r.Mixed.Operations.PauseMs.P99, r.Mixed.Operations.HintMs.P99} {
		require.Positive(t, took)
	}
	require.Positive(t, r.Mixed.Idle.TransactionsPerSecond)
	require.Positive(t, r.Mixed.Memory.PeakMiB)
}

func TestSoakMeasuresEveryGrowingQuantity(t *testing.T) {
	t.Parallel()
	r := runBench(t, "soak", "--rate", "20", "--operate", "4", "--hanging", "2", "--for", "6s", "--sample", "1s")

	require.Positive(t, r.Completed)
	require.Zero(t, r.EarlyStarts+r.Duplicates)
	require.NotNil(t, r.Soak)
	require.Equal(t, 6, r.Soak.Samples)
	seen := map[string]float64{}
	for _, x := range r.Soak.Trends {
		seen[x.Name] = x.Max
	}
	for _, name := range []string{
		"worker 1: heap after a collection", "worker 1: goroutines", "API server: heap after a collection", "API server: goroutines",
		"connections to the database", "schedules: size", "schedules: indexes",
	} {
		require.Positive(t, seen[name], name)
	}
	for _, name := range []string{"schedules: live rows", "schedules: dead rows"} {
		require.Contains(t, seen, name)
	}
}
