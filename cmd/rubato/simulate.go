package main

import (
	"context"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"time"

	"rubato/internal/app/apiserver"
)

// simulateCmd is `rubato simulate`.
type simulateCmd struct {
	File  string  `arg:"" placeholder:"FILE" help:"YAML file with endpoints and the processes of their targets, or - for standard input."`
	Days  float64 `default:"30" help:"Simulated days."`
	Seeds int     `default:"20" help:"Number of repetitions with other random numbers."`
}

// Help describes the format of a file.
func (*simulateCmd) Help() string {
	return `Example of a file:
  endpoints:
    - key: shop
      baselineIntervalMs: 10000
      minIntervalMs: 1000
      maxIntervalMs: 60000
      process: {kind: bursts, quiet: 25m, burst: 2m, rate: 0.5}
      policies: [fixed, act]
Kinds of processes: poisson {rate}, bursts {quiet, burst, rate}, mmpp {rates, dwell}, diurnal {peakRate, nightRate}, periodic {every, offset} and trace {file}; each may have noise, etag, outages {every, for}, latency, errorRate, limit {requests, per}, retryAfter and next. Rates are changes per second. Policies are fixed, off, observe, suggest, act, or an object with a name and fields of the endpoint. Top-level budgets are a list of {budget, and label or host} that endpoints share.`
}

// simulationGC is the growth of the heap between two collections, in percent. A simulation makes
// little but garbage, so that collecting a larger heap less often saves a fifth of its CPU time.
const simulationGC = 400

// maxDays bounds a simulation, because its changes are kept in memory.
const maxDays = 366

// Run prints a row per endpoint and policy.
func (cmd *simulateCmd) Run(ctx context.Context, s *session) error {
	switch {
	case !(cmd.Days > 0 && cmd.Days <= maxDays):
		return usageError{"--days: must be more than 0 and at most " + strconv.Itoa(maxDays)}
	case cmd.Seeds < 1 || cmd.Seeds > 10_000:
		return usageError{"--seeds: must be 1 to 10000"}
	}
	text, err := s.readFile(cmd.File)
	if err != nil {
		return err
	}
	y := endpointYAML{file: cmd.File}
	scenario := y.scenario(text)
	if err := faultError(y.faults); err != nil {
		return err
	}
	defer debug.SetGCPercent(debug.SetGCPercent(simulationGC))
	raw, faults, err := apiserver.Simulation{
		Scenario: scenario.spec,
		Open:     cmd.open,
		Length:   time.Duration(cmd.Days * 24 * float64(time.Hour)).Truncate(time.Second),
		Seeds:    cmd.Seeds,
	}.Run(ctx)
	if err != nil {
		return err
	}
	for _, f := range faults {
		y.fault(scenario.lineOf(f.Field), f.Field, f.Message)
	}
	if err := faultError(y.faults); err != nil {
		return err
	}
	return list(s, raw, simulationHeader(), simulationRow)
}

// open reads a file that the scenario names, relative to the scenario's folder.
func (cmd *simulateCmd) open(name string) ([]byte, error) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(cmd.File), name)
	}
	return os.ReadFile(name)
}

func simulationHeader() []string {
	return []string{"NAME", "POLICY", "POLLS", "REFUSALS", "CHANGES", "MEAN DELAY", "P95 DELAY", "VS BEST FIXED", "ORACLE VS IT", "MOVES/H", "OUTSIDE CLAMPS", "RECOVERY", "POLLS/OUTAGE", "WORST BUDGET SHARE"}
}

// simulatedRow is a row of a simulation as its table shows it.
type simulatedRow struct {
	Name, Policy             string
	Polls, Refusals, Changes int64
	MeanDelayMs, P95DelayMs  float64
	RatioToBestFixed         *float64
	RatioToOracle            *float64
	TempoMovesPerHour        float64
	TimeOutsideClampsMs      int64
	RecoveryMs               *float64
	PollsPerOutage           *float64
	WorstBudgetShare         *float64
}

func simulationRow(r simulatedRow) []string {
	count := func(n int64) string { return strconv.FormatInt(n, 10) }
	ratio := func(v *float64) string {
		if v == nil {
			return "-"
		}
		return strconv.FormatFloat(*v, 'f', 2, 64)
	}
	recovery := "-"
	if r.RecoveryMs != nil {
		recovery = milliseconds(int64(*r.RecoveryMs))
	}
	return []string{
		r.Name, r.Policy, count(r.Polls), count(r.Refusals), count(r.Changes),
		milliseconds(int64(r.MeanDelayMs)), milliseconds(int64(r.P95DelayMs)),
		ratio(r.RatioToBestFixed), ratio(r.RatioToOracle), ratio(&r.TempoMovesPerHour), milliseconds(r.TimeOutsideClampsMs),
		recovery, ratio(r.PollsPerOutage), ratio(r.WorstBudgetShare),
	}
}
