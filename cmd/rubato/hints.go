package main

import (
	"context"
	"encoding/json"
	"time"

	"rubato/client"
)

// hintsCmd is `rubato hints`.
type hintsCmd struct {
	Interval hintsIntervalCmd `cmd:"" help:"Propose another interval for a limited time."`
	OneShot  hintsOneShotCmd  `cmd:"" name:"one-shot" help:"Propose one run at a given time."`
	Clear    hintsClearCmd    `cmd:"" help:"Remove both hints of an endpoint."`
}

// hintFlags are the flags of both kinds of hint.
type hintFlags struct {
	endpointArg

	For    time.Duration `required:"" placeholder:"DURATION" help:"Lifetime of the hint."`
	Reason string        `help:"Reason, shown to other users."`
}

type (
	hintsIntervalCmd struct {
		hintFlags

		Every time.Duration `required:"" placeholder:"DURATION" help:"Proposed interval."`
	}
	hintsOneShotCmd struct {
		hintFlags

		At time.Time      `xor:"when" required:"" placeholder:"TIME" help:"Time of the run, such as 2026-03-01T12:00:00Z."`
		In *time.Duration `xor:"when" required:"" placeholder:"DURATION" help:"Delay of the run from now."`
	}
	hintsClearCmd struct{ endpointArg }
)

// Run sets an interval hint.
func (cmd *hintsIntervalCmd) Run(ctx context.Context, s *session) error {
	return s.onEndpoint(ctx, cmd.Endpoint, func(r *remote, id string) (json.RawMessage, error) {
		return r.read(r.api.PutIntervalHintWithResponse(ctx, id, client.IntervalHintRequest{
			IntervalMs: cmd.Every.Milliseconds(),
			TTLMs:      new(cmd.For.Milliseconds()),
			Reason:     given(cmd.Reason),
		}))
	})
}

// Run sets a one-shot hint.
func (cmd *hintsOneShotCmd) Run(ctx context.Context, s *session) error {
	body := client.OneShotHintRequest{TTLMs: new(cmd.For.Milliseconds()), Reason: given(cmd.Reason)}
	if cmd.In != nil {
		body.InMs = new(cmd.In.Milliseconds())
	} else {
		body.At = new(cmd.At.UTC())
	}
	return s.onEndpoint(ctx, cmd.Endpoint, func(r *remote, id string) (json.RawMessage, error) {
		return r.read(r.api.PutOneShotHintWithResponse(ctx, id, body))
	})
}

// Run removes both hints of an endpoint.
func (cmd *hintsClearCmd) Run(ctx context.Context, s *session) error {
	return s.onEndpoint(ctx, cmd.Endpoint, func(r *remote, id string) (json.RawMessage, error) {
		return r.read(r.api.ClearHintsWithResponse(ctx, id))
	})
}
