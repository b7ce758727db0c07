package bench

import "fmt"

// Report is what a bench found out. Its own numbers are Rubato's; the contenders' stand beside them.
type Report struct {
	Command string `json:"command"`

	Measure

	Ceilings   Ceilings             `json:"ceilings"`
	Peers      Peers                `json:"peers"`
	Contenders map[string]Measure   `json:"contenders"` // medians, Rubato included
	Rounds     map[string][]Measure `json:"rounds"`     // what the medians are of
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
	return []Table{t}
}
