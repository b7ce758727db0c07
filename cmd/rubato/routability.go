package main

import (
	"context"
	"strings"

	"rubato/client"
)

// endpointsRoutabilityCmd is `rubato endpoints routability`.
type endpointsRoutabilityCmd struct {
	endpointArg
}

// Run prints which workers run an endpoint.
func (cmd *endpointsRoutabilityCmd) Run(ctx context.Context, s *session) error {
	r, id, err := s.connectTo(ctx, cmd.Endpoint)
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.GetEndpointRoutabilityWithResponse(ctx, id))
	if err != nil {
		return err
	}
	return show(s, raw, func(d client.Routability) error { return s.facts(routabilityFacts(d)) })
}

// routabilityFacts returns the rows of the table: a summary, and one row per worker.
func routabilityFacts(d client.Routability) [][2]string {
	rows := [][2]string{
		{"summary", d.Summary},
		{"required tags", strings.Join(d.RequiredTags, ", ")},
		{"preferred tags", strings.Join(d.PreferredTags, ", ")},
	}
	if d.UnservedSince != nil {
		rows = append(rows, [2]string{"without a worker since", instant(d.UnservedSince)})
	}
	for _, w := range d.Workers {
		rows = append(rows, [2]string{w.Name + " (" + string(w.State) + ")", w.Reason})
	}
	return rows
}
