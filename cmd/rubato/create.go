package main

import (
	"bytes"
	"context"
)

// endpointsCreateCmd is `rubato endpoints create`.
type endpointsCreateCmd struct {
	fieldFlags

	File string `short:"f" placeholder:"FILE" help:"JSON file with the endpoint, or - for standard input. Excludes the flags of fields."`
}

// Run registers the endpoint and prints it.
func (cmd *endpointsCreateCmd) Run(ctx context.Context, s *session) error {
	fields, err := cmd.fields()
	if err != nil {
		return err
	}
	body, err := s.objectFrom("endpoint", cmd.File, fields)
	if err != nil {
		return err
	}
	if body, err = writable(body); err != nil {
		return err
	}
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.CreateEndpointWithBodyWithResponse(ctx, "application/json", bytes.NewReader(body)))
	if err != nil {
		return err
	}
	return s.printEndpoint(raw)
}
