package main

import (
	"context"

	"rubato/client"
	"rubato/internal/sourcetext"
)

type (
	endpointsPreviewCmd struct {
		endpointArg

		N int32 `short:"n" default:"10" help:"Number of due times, at most 100."`
	}
	endpointsExplainCmd struct{ endpointArg }
)

// Run prints the next due times of an endpoint.
func (cmd *endpointsPreviewCmd) Run(ctx context.Context, s *session) error {
	r, id, err := s.connectTo(ctx, cmd.Endpoint)
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.PreviewEndpointWithResponse(ctx, id, &client.PreviewEndpointParams{N: &cmd.N}))
	if err != nil {
		return err
	}
	return list(s, raw, []string{"DUE", "BECAUSE", "NOTE"}, func(p client.PlannedTime) []string {
		return []string{instant(&p.At), sourcetext.Source(string(p.Source)), dash(text(p.Note))}
	})
}

// Run prints the current decision of an endpoint, rule by rule.
func (cmd *endpointsExplainCmd) Run(ctx context.Context, s *session) error {
	r, id, err := s.connectTo(ctx, cmd.Endpoint)
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.ExplainEndpointWithResponse(ctx, id))
	if err != nil {
		return err
	}
	return show(s, raw, func(e client.Explanation) error {
		return s.facts(append([][2]string{
			{"decided", instant(&e.DecidedAt) + ", cause " + e.Cause},
			{"next run", dash(instant(e.NextRunAt)) + ", " + string(e.Source)},
		}, traceFacts(e.Steps)...))
	})
}

// traceFacts returns a row per rule of a decision.
func traceFacts(steps []client.Step) [][2]string {
	facts := make([][2]string, len(steps))
	for i, step := range steps {
		facts[i] = [2]string{"  " + string(step.Rule), dash(instant(step.At)) + " " + step.Why}
	}
	return facts
}
