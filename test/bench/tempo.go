package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.yaml.in/yaml/v3"

	"rubato/internal/app/apiserver"
	"rubato/internal/simulate"
	"rubato/test/bench/internal/bench"
)

// tempoCmd implements `bench tempo`.
type tempoCmd struct {
	File    string        `arg:"" placeholder:"FILE" help:"Scenario of rubato simulate, such as examples/product.yaml."`
	For     time.Duration `default:"30m" help:"Duration."`
	Seed    uint64        `default:"1" help:"Seed of the content."`
	Seeds   int           `default:"50" help:"Number of repetitions of the simulation."`
	Workers int           `default:"1" help:"Number of workers."`
	Set     []string      `placeholder:"NAME=VALUE" sep:"none" help:"A setting of API server, planner and workers. May be repeated."`
	Dir     string        `placeholder:"DIR" help:"Parent of the data directory of the private Postgres. Default: among temporary files."`
}

// Run measures and prints.
func (cmd *tempoCmd) Run(ctx context.Context, s *session) error {
	scenario, err := cmd.scenario()
	if err != nil {
		return err
	}
	c, err := hostFlags{Set: cmd.Set, Dir: cmd.Dir}.contest(s)
	if err != nil {
		return err
	}
	report, err := bench.Tempo{
		Host:     c.Host,
		Scenario: scenario,
		For:      cmd.For,
		Seed:     cmd.Seed,
		Workers:  cmd.Workers,
		Seeds:    max(1, cmd.Seeds),
	}.Run(ctx)
	if err != nil {
		return err
	}
	return s.report(report)
}

// scenario reads the file.
func (cmd *tempoCmd) scenario() (simulate.Scenario, error) {
	text, err := os.ReadFile(cmd.File)
	if err != nil {
		return simulate.Scenario{}, fmt.Errorf("reading the scenario: %w", err)
	}
	var parsed any
	if err := yaml.Unmarshal(text, &parsed); err != nil {
		return simulate.Scenario{}, fmt.Errorf("reading the scenario %s: %w", cmd.File, err)
	}
	if text, err = json.Marshal(parsed); err != nil {
		return simulate.Scenario{}, fmt.Errorf("reading the scenario %s: %w", cmd.File, err)
	}
	return apiserver.ReadScenario(text, func(name string) ([]byte, error) {
		return os.ReadFile(filepath.Join(filepath.Dir(cmd.File), name))
	})
}
