package main

import (
	"context"
	"strconv"
	"strings"

	"rubato/client"
)

// endpointsVersionsCmd is `rubato endpoints versions`.
type endpointsVersionsCmd struct {
	endpointArg

	Version int64  `arg:"" optional:"" help:"Version to print in full, as JSON. Default: list all versions."`
	Limit   int32  `default:"50" help:"Maximum number of results."`
	Cursor  string `help:"Cursor of the next page, from the previous list."`
}

// Run prints the versions of an endpoint, or one version in full.
func (cmd *endpointsVersionsCmd) Run(ctx context.Context, s *session) error {
	r, id, err := s.connectTo(ctx, cmd.Endpoint)
	if err != nil {
		return err
	}
	if cmd.Version > 0 {
		raw, err := r.read(r.api.GetEndpointVersionWithResponse(ctx, id, cmd.Version))
		if err != nil {
			return err
		}
		return s.print(raw)
	}
	raw, err := r.read(r.api.ListEndpointVersionsWithResponse(ctx, id, &client.ListEndpointVersionsParams{Limit: &cmd.Limit, Cursor: given(cmd.Cursor)}))
	if err != nil {
		return err
	}
	return list(s, raw, []string{"VERSION", "CHANGED", "BY", "FIELDS"}, func(v client.EndpointVersion) []string {
		fields := "-"
		if v.Changes != nil {
			fields = dash(strings.Join(*v.Changes, ", "))
		}
		return []string{strconv.FormatInt(v.Version, 10), instant(&v.ChangedAt), dash(v.ChangedBy), fields}
	})
}
