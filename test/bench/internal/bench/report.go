package bench

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Report is the result of a bench: Rubato's numbers, next to those of the contenders.
type Report struct {
	Command string `json:"command"`

	Measure

	Ceilings   Ceilings             `json:"ceilings"`
	Peers      Peers                `json:"peers"`
	Contenders map[string]Measure   `json:"contenders"`           // medians, including Rubato
	Rounds     map[string][]Measure `json:"rounds"`               // the single rounds
	GapErrorMs *Spread              `json:"gapErrorMs,omitempty"` // deviation of the time between two calls from the interval
	Search     *Search              `json:"search,omitempty"`
	Scale      []ScalePoint         `json:"scale,omitempty"`
	Claims     []ClaimPoint         `json:"claims,omitempty"`
	API        *APIReport           `json:"api,omitempty"`
	Calls      *CallsReport         `json:"calls,omitempty"`
	Mixed      *MixedReport         `json:"mixed,omitempty"`
	Soak       *SoakReport          `json:"soak,omitempty"`
	Snapshot   *SnapshotReport      `json:"snapshot,omitempty"`
	DeadHosts  *DeadHostsReport     `json:"deadHosts,omitempty"`
	Tempo      []TempoRow           `json:"tempo,omitempty"`
	Config     map[string]any       `json:"config"`
	Machine    Machine              `json:"machine"`
	Notes      []string             `json:"notes,omitempty"` // omitted contenders, and the reason
}

// Ceilings are the best throughputs of the machine.
type Ceilings struct {
	BareClient    float64 `json:"bareClientPerSecond,omitempty"`    // requests without a database
	IdealPipeline float64 `json:"idealPipelinePerSecond,omitempty"` // durable and batched, without further guarantees
	// FencedPipeline is the ideal pipeline with the statements that the guarantees need.
	FencedPipeline float64 `json:"fencedPipelinePerSecond,omitempty"`
}

// Peers are other schedulers with the same work.
type Peers struct {
	River float64 `json:"riverPerSecond,omitempty"`
}

// reportOf summarizes rounds.
func reportOf(rounds map[string][]Measure, machine Machine) Report {
	r := Report{
		Contenders: map[string]Measure{},
		Rounds:     rounds,
		Machine:    machine,
	}
	for name, list := range rounds {
		r.Contenders[name] = medianOf(list)
	}
	r.Measure = r.Contenders[contenderRubato]
	r.Ceilings.BareClient = r.Contenders[contenderBare].RunsPerSecond
	r.Ceilings.IdealPipeline = r.Contenders[contenderIdeal].RunsPerSecond
	r.Ceilings.FencedPipeline = r.Contenders[contenderFenced].RunsPerSecond
	r.Peers.River = r.Contenders[contenderRiver].RunsPerSecond
	return r
}

// Table is a table of a printed report.
type Table struct {
	Title  string
	Header []string
	Rows   [][]string
}

// Tables returns the report as tables.
func (r Report) Tables() []Table {
	var tables []Table
	if contest := r.contest(); len(contest.Rows) > 0 {
		tables = append(tables, contest)
	}
	if len(r.Scale) > 0 {
		tables = append(tables, scaleTable(r.Scale))
	}
	if len(r.Claims) > 0 {
		tables = append(tables, claimTable(r.Claims))
	}
	if r.GapErrorMs != nil {
		tables = append(tables, spreadTable("gap error, ms", map[string]Spread{contenderRubato: *r.GapErrorMs}))
	}
	if r.Calls != nil {
		tables = append(tables, r.Calls.tables()...)
	}
	if r.API != nil {
		tables = append(tables, r.API.tables()...)
	}
	if r.Mixed != nil {
		tables = append(tables, r.Mixed.tables()...)
	}
	if r.Soak != nil {
		tables = append(tables, r.Soak.table())
	}
	if r.Snapshot != nil {
		tables = append(tables, r.Snapshot.table())
	}
	if r.DeadHosts != nil {
		tables = append(tables, r.DeadHosts.table())
	}
	if len(r.Tempo) > 0 {
		tables = append(tables, tempoTable(r.Tempo))
	}
	if r.Search != nil {
		tables = append(tables, r.Search.table())
	}
	return tables
}

// contest returns the table of the contenders.
func (r Report) contest() Table {
	t := Table{Title: r.Command, Header: append([]string{""}, measureHeader()...)}
	for _, name := range contenders() {
		if m, took := r.Contenders[name]; took {
			t.Rows = append(t.Rows, append([]string{name}, m.row()...))
		}
	}
	return t
}

func scaleTable(points []ScalePoint) Table {
	t := Table{Title: "bursts with several workers", Header: append([]string{"WORKERS"}, measureHeader()...)}
	for _, p := range points {
		t.Rows = append(t.Rows, append([]string{fmt.Sprint(p.Workers)}, p.row()...))
	}
	return t
}

func claimTable(points []ClaimPoint) Table {
	t := Table{
		Title:  fmt.Sprintf("claims of %d, ms", claimLimit),
		Header: []string{"REGISTERED", "CLAIMED", "CLAIMERS", "OLD SNAPSHOT", "P50", "P90", "P99", "MAX", "CPU OF POSTGRES", "STATEMENTS"},
	}
	for _, p := range points {
		t.Rows = append(t.Rows, []string{
			fmt.Sprint(p.Registered), fmt.Sprint(p.Claimed), fmt.Sprint(p.Claimers), strconv.FormatBool(p.Snapshot),
			figure(p.Milli.P50), figure(p.Milli.P90), figure(p.Milli.P99), figure(p.Milli.Max), figure(p.CPUMs), fmt.Sprint(p.Statements),
		})
	}
	return t
}

func measureHeader() []string {
	return []string{"RUNS/S", "LAG P50", "P99", "MAX ms", "CPU s/1000: WORKER", "POSTGRES", "SINK", "MEMORY MiB", "EARLY", "TWICE", "MISSING", "FAILED"}
}

// failed describes failures and their causes.
func (m Measure) failed() string {
	if len(m.Failures) == 0 {
		return "0"
	}
	var list []string
	for _, reason := range slices.Sorted(maps.Keys(m.Failures)) {
		list = append(list, fmt.Sprintf("%d %s", m.Failures[reason], reason))
	}
	return strings.Join(list, ", ")
}

func (m Measure) row() []string {
	return []string{
		fmt.Sprintf("%.0f", m.RunsPerSecond), figure(m.StartLagMs.P50), figure(m.StartLagMs.P99), figure(m.StartLagMs.Max),
		fmt.Sprintf("%.4f", m.CPU.Worker), fmt.Sprintf("%.4f", m.CPU.Postgres), fmt.Sprintf("%.4f", m.CPU.Sink),
		fmt.Sprintf("%.1f", m.PeakMemoryMiB), fmt.Sprint(m.EarlyStarts), fmt.Sprint(m.Duplicates), fmt.Sprint(m.Missing),
		m.failed(),
	}
}

// spreadTable returns a table of spreads by name.
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
		t.Rows = append(t.Rows, []string{fmt.Sprint(trial.Rate), figure(trial.P99Ms), strconv.FormatBool(trial.Kept)})
	}
	return t
}

// figure formats milliseconds.
func figure(ms float64) string { return fmt.Sprintf("%.2f", ms) }
