package main

import (
	"context"
	"strconv"

	"rubato/client"
)

// endpointsShadowCmd is `rubato endpoints shadow`.
type endpointsShadowCmd struct {
	endpointArg

	Policy string `enum:"off,observe,suggest,act,fixed," default:"" help:"Other policy: off, observe, suggest, act, or fixed for the baseline interval whatever comes. Default: act, or off for an endpoint with act."`
}

// Run prints the score of another policy.
func (cmd *endpointsShadowCmd) Run(ctx context.Context, s *session) error {
	r, id, err := s.connectTo(ctx, cmd.Endpoint)
	if err != nil {
		return err
	}
	params := &client.GetEndpointShadowParams{}
	if cmd.Policy != "" {
		params.Policy = new(client.GetEndpointShadowParamsPolicy(cmd.Policy))
	}
	raw, err := r.read(r.api.GetEndpointShadowWithResponse(ctx, id, params))
	if err != nil {
		return err
	}
	return show(s, raw, func(d client.EndpointShadow) error { return s.facts(shadowFacts(d)) })
}

// shadowFacts returns the rows of the table of a score.
func shadowFacts(d client.EndpointShadow) [][2]string {
	rows := append(make([][2]string, 0, 8), [][2]string{
		{"policy", d.Policy + ", beside " + d.InForce},
		{"summary", d.Summary},
		{"record", counted(d.Runs) + " runs since " + instant(d.From)},
		{"changes found", counted(d.Changes)},
	}...)
	if d.Score == nil {
		return rows
	}
	delay := func(v float64) string { return milliseconds(int64(v)) }
	share := func(v float64) string { return strconv.FormatFloat(100*v, 'f', 0, 64) + " %" }
	sooner := "-"
	if d.Score.SoonerMs != nil {
		sooner = within(*d.Score.SoonerMs, delay)
	}
	return append(rows, [][2]string{
		{"runs", within(d.Score.Runs, func(v float64) string { return counted(int64(v)) })},
		{"runs saved", within(d.Score.RunsSaved, share)},
		{"mean delay", within(d.Score.MeanDelayMs, delay) + "; on record " + within(d.Score.RecordedMeanDelayMs, delay)},
		{"found sooner", sooner},
	}...)
}

// within writes a figure with its bounds.
func within(b client.Bounds, form func(float64) string) string {
	return bounded{Least: b.Least, Most: b.Most}.text(form)
}
