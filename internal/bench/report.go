package bench

import (
	"fmt"
	"maps"
	"slices"
)

// Report is what a bench found out. Its own numbers are Rubato's; the contenders' stand beside them.
type Report struct {
	Command string `json:"command"`

	Measure

	Ceilings   Ceilings             `json:"ceilings"`
	Peers      Peers                `json:"peers"`
	Contenders map[string]Measure   `json:"contenders"`           // medians, Rubato included
	Rounds     map[string][]Measure `json:"rounds"`               // what the medians are of
	GapErrorMs *Spread              `json:"gapErrorMs,omitempty"` // how far the time between two calls of an endpoint is from its interval
	Search     *Search              `json:"search,omitempty"`
	Config     map[string]any       `json:"config"`
	Machine    Machine              `json:"machine"`
	Notes      []string             `json:"notes,omitempty"` // what was left out, and why
}

// Ceilings are what the machine can do at best.
type Ceilings struct {
	BareClient    float64 `json:"bareClientPerSecond,omitempty"`    // requests without any database
	IdealPipeline float64 `json:"idealPipelinePerSecond,omitempty"` // durable, in batches, and nothing else
}

// Peers are what others do with the same work.
type Peers struct {
	River float64 `json:"riverPerSecond,omitempty"`
}

// reportOf sums rounds up.
func reportOf(rounds map[string][]Measure, machine Machine) Report {
	r := Report{Contenders: map[string]Measure{}, Rounds: rounds, Machine: machine}
	for name, list := range rounds {
		r.Contenders[name] = medianOf(list)
	}
	r.Measure = r.Contenders[contenderRubato]
	r.Ceilings.BareClient = r.Contenders[contenderBare].RunsPerSecond
	r.Ceilings.IdealPipeline = r.Contenders[contenderIdeal].RunsPerSecond
	r.Peers.River = r.Contenders[contenderRiver].RunsPerSecond
	return r
}

// Table is a part of a report for people.
type Table struct {
	Title  string
	Header []string
	Rows   [][]string
}

// Tables returns the report for people.
func (r Report) Tables() []Table {
	t := Table{
		Title:  r.Command,
		Header: []string{"", "RUNS/S", "LAG P50", "P99", "MAX ms", "CPU s/1000: WORKER", "POSTGRES", "SINK", "MEMORY MiB", "EARLY", "TWICE", "MISSING"},
	}
	for _, name := range contenders() {
		m, took := r.Contenders[name]
		if !took {
			continue
		}
		t.Rows = append(t.Rows, []string{
			name, fmt.Sprintf("%.0f", m.RunsPerSecond), fmt.Sprintf("%.2f", m.StartLagMs.P50), fmt.Sprintf("%.2f", m.StartLagMs.P99),
			fmt.Sprintf("%.2f", m.StartLagMs.Max), fmt.Sprintf("%.4f", m.CPU.Worker), fmt.Sprintf("%.4f", m.CPU.Postgres),
			fmt.Sprintf("%.4f", m.CPU.Sink), fmt.Sprintf("%.1f", m.PeakMemoryMiB), fmt.Sprint(m.EarlyStarts), fmt.Sprint(m.Duplicates),
			fmt.Sprint(m.Missing),
		})
	}
	tables := []Table{t}
	if r.GapErrorMs != nil {
		tables = append(tables, spreadTable("gap error, ms", map[string]Spread{"": *r.GapErrorMs}))
	}
	if r.Search != nil {
		tables = append(tables, r.Search.table())
	}
	return tables
}

// spreadTable shows spreads by name.
func spreadTable(title string, spreads map[string]Spread) Table {
	t := Table{Title: title, Header: []string{"", "P50", "P90", "P99", "MAX"}}
	for _, name := range slices.Sorted(maps.Keys(spreads)) {
		s := spreads[name]
		t.Rows = append(t.Rows, []string{name, figure(s.P50), figure(s.P90), figure(s.P99), figure(s.Max)})
	}
	return t
}

func (s Search) table() Table {
	t := Table{
		Title:  fmt.Sprintf("highest rate with a lag p99 of at most %.0f ms: %d/s", s.LimitMs, s.HighestRate),
		Header: []string{"RATE", "LAG P99 ms", "KEPT"},
	}
	for _, trial := range s.Trials {
		t.Rows = append(t.Rows, []string{fmt.Sprint(trial.Rate), figure(trial.P99Ms), fmt.Sprint(trial.Kept)})
	}
	return t
}

// figure writes a number of milliseconds.
func figure(ms float64) string { return fmt.Sprintf("%.2f", ms) }
