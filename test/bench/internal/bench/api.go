package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// API measures the latency of the API next to a loaded worker: registrations, one-off runs, and
// operations on endpoints. It is the API part of [Mixed].
type API struct {
	Contest
	Load
}

// Load is the load on the API.
type Load struct {
	// Rate is the number of calls per second that a worker makes meanwhile, and that the API load
	// must not slow down.
	Rate int
	// For is how long both are measured.
	For time.Duration
	// Operate is the number of operations per second; 0: none.
	Operate int
	// RunNow is the number of one-off runs, requested sequentially.
	RunNow int
	// Register is the number of endpoints to register one by one.
	Register int
	// Conns is the number of connections.
	Conns int
}

// APIReport is the result of [API].
type APIReport struct {
	// RunNowMs is the time from the API call to the request at the sink.
	RunNowMs      Spread        `json:"runNowMs"`
	Registrations Registrations `json:"registrations"`
	Operations    Operations    `json:"operations"`
}

// Run measures each part in every round.
func (a API) Run(ctx context.Context) (_ Report, err error) {
	l, err := openLab(ctx, a.Host)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, l.close(context.WithoutCancel(ctx))) }()
	var rounds []APIReport
	for n := range a.Rounds {
		l.Progress.Say("round %d of %d", n+1, a.Rounds)
		round, err := a.api(ctx, l)
		if err != nil {
			return Report{}, err
		}
		rounds = append(rounds, round)
	}
	machine, err := l.machine(ctx)
	r := reportOf(nil, machine)
	r.Command, r.Config = "api", a.config(l)
	r.Config["rate"], r.Config["seconds"] = a.Rate, a.For.Seconds()
	found := medianAPI(rounds)
	r.API = &found
	return r, err
}

// api measures the parts about the API.
func (x Load) api(ctx context.Context, l *environment) (out APIReport, err error) {
	if x.Operate > 0 {
		if out.Operations, err = x.operations(ctx, l); err != nil {
			return out, fmt.Errorf("operations: %w", err)
		}
	}
	return out, x.calls(ctx, l, &out)
}

// medianAPI returns the medians over the rounds.
func medianAPI(rounds []APIReport) APIReport {
	out := rounds[0] // keeps the fields that are equal in every round
	run, took, operations := make([]Spread, len(rounds)), make([]Spread, len(rounds)), make([]Operations, len(rounds))
	for i, r := range rounds {
		run[i], took[i], operations[i] = r.RunNowMs, r.Registrations.Milli, r.Operations
	}
	out.RunNowMs, out.Registrations.Milli, out.Operations = medianSpread(run), medianSpread(took), medianOperations(operations)
	out.Registrations.PerSecond = median(rounds, func(r APIReport) float64 { return r.Registrations.PerSecond })
	return out
}

// spreads returns the spreads of the report by name.
func (a APIReport) spreads() map[string]Spread {
	return map[string]Spread{
		"register": a.Registrations.Milli, "run now, to the request": a.RunNowMs,
		"API: run": a.Operations.RunMs, "API: run, to the request": a.Operations.RunSentMs, "API: pause": a.Operations.PauseMs,
		"API: resume": a.Operations.ResumeMs, "API: hint": a.Operations.HintMs, "call, beside the API's": a.Operations.LagMs,
	}
}

// facts returns the single numbers of the report.
func (a APIReport) facts() [][]string {
	return [][]string{
		{"registrations", fmt.Sprintf("%d connections", a.Registrations.Conns), fmt.Sprintf("%.0f/s", a.Registrations.PerSecond)},
		{
			"calls left, refused; runs unsent", fmt.Sprintf("%d calls", a.Operations.Asked),
			fmt.Sprintf("%d, %d; %d", a.Operations.Left, a.Operations.Refused, a.Operations.Unsent),
		},
	}
}

func (a APIReport) tables() []Table {
	return []Table{
		spreadTable("how long it takes, ms", a.spreads()),
		{
			Title:  "and",
			Header: []string{"WHAT", "WITH", "FIGURE"},
			Rows:   a.facts(),
		},
	}
}

// Registrations is the result of registering endpoints one by one.
type Registrations struct {
	Conns     int     `json:"connections"`
	PerSecond float64 `json:"perSecond"`
	Milli     Spread  `json:"ms"`
}
