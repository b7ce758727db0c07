package main

import (
	"context"
	"strconv"
	"time"

	"rubato/client"
)

// endpointsTempoCmd is `rubato endpoints tempo`.
type endpointsTempoCmd struct{ endpointArg }

// Run prints the rate of change of an endpoint's answers, the price and the interval.
func (cmd *endpointsTempoCmd) Run(ctx context.Context, s *session) error {
	r, id, err := s.connectTo(ctx, cmd.Endpoint)
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.GetEndpointTempoWithResponse(ctx, id))
	if err != nil {
		return err
	}
	return show(s, raw, func(t client.EndpointTempo) error { return s.facts(tempoFacts(t)) })
}

// tempoFacts returns the rows of the table of a tempo.
func tempoFacts(t client.EndpointTempo) [][2]string {
	price, interval, next, most := "-", "-", "-", "no limit"
	if t.Price != nil && t.WaitMs != nil && t.NextLook != nil {
		price, interval, next = threeDigits(*t.Price)+" change-seconds", milliseconds(*t.WaitMs), t.NextLook.Why
	}
	if t.MaxWaitMs != nil {
		most = milliseconds(*t.MaxWaitMs)
	}
	budget := t.Budget.Name
	if t.Budget.Budget != nil {
		budget = *t.Budget.Budget + " of " + budget
	}
	return [][2]string{
		{"state", t.Why},
		{"rate of change", changeRate(t.ChangesPerHour)},
		{"likeliest rate", changeRate(t.LikeliestChangesPerHour)},
		{"budget", budget + ", a run every " + milliseconds(t.Budget.EveryMs)},
		{"price of a run", price},
		{"interval", interval},
		{"bounds", milliseconds(t.MinWaitMs) + " to " + most},
		{"next run", next},
		{"record since", instant(&t.Record.From)},
		{"runs", counted(t.Record.Runs) + "; by the baseline alone " + counted(t.Record.BaselineRuns)},
		{"changes found", counted(t.Record.Changes) + " in " + counted(t.Record.Compared) + " compared answers"},
	}
}

// changeRate writes a rate of change with the mean time between changes.
func changeRate(perHour *float64) string {
	if perHour == nil {
		return "-"
	}
	text := threeDigits(*perHour) + " changes/h"
	if *perHour < 1e-3 { // The mean time between changes would be weeks.
		return text
	}
	every := time.Duration(float64(time.Hour) / *perHour)
	if every > 10*time.Second {
		every = every.Round(time.Second)
	}
	return text + ", one in " + every.Round(time.Millisecond).String()
}

// threeDigits writes a number to three digits, or as a whole number from 1,000 upwards.
func threeDigits(v float64) string {
	if v >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

func counted(n int64) string { return strconv.FormatInt(n, 10) }
