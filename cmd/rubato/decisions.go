package main

import (
	"context"
	"strconv"

	"rubato/client"
)

// endpointsDecisionsCmd is `rubato endpoints decisions`.
type endpointsDecisionsCmd struct {
	endpointArg

	Limit  int32  `default:"50" help:"Maximum number of results."`
	Cursor string `help:"Cursor of the next page, from the previous list."`
}

// Run lists the decisions about an endpoint.
func (cmd *endpointsDecisionsCmd) Run(ctx context.Context, s *session) error {
	r, id, err := s.connectTo(ctx, cmd.Endpoint)
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.ListEndpointDecisionsWithResponse(ctx, id, &client.ListEndpointDecisionsParams{Limit: &cmd.Limit, Cursor: given(cmd.Cursor)}))
	if err != nil {
		return err
	}
	return list(s, raw, []string{"DECIDED", "CAUSE", "BY", "VERSION", "NEXT RUN", "SOURCE", "WHY"}, func(d client.RecordedDecision) []string {
		cause, author, why := d.Cause, "-", "-"
		if d.RunID != nil {
			cause += " of " + *d.RunID
		}
		if d.Author != nil {
			author = *d.Author
		}
		if n := len(d.Steps); n > 0 {
			why = d.Steps[n-1].Why
		}
		return []string{instant(&d.DecidedAt), cause, author, strconv.FormatInt(d.Version, 10), instant(d.NextRunAt), string(d.Source), dash(why)}
	})
}
