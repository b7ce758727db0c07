package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"rubato/client"
)

// endpointsNoiseCmd is `rubato endpoints noise`.
type endpointsNoiseCmd struct {
	endpointArg

	Reject string `xor:"verdict" placeholder:"PATH" help:"JSONPath of a finding that counts as content again."`
	Accept string `xor:"verdict" placeholder:"PATH" help:"JSONPath of a rejected finding that is ignored again."`
}

// Run prints the noise in the answers of an endpoint, or judges a finding.
func (cmd *endpointsNoiseCmd) Run(ctx context.Context, s *session) error {
	r, id, err := s.connectTo(ctx, cmd.Endpoint)
	if err != nil {
		return err
	}
	if cmd.Reject != "" || cmd.Accept != "" {
		return cmd.judge(ctx, s, r, id)
	}
	raw, err := r.read(r.api.ListNoiseWithResponse(ctx, id))
	if err != nil {
		return err
	}
	if err := list(s, raw, []string{"PATH", "STATE", "DIFFERED", "GAP", "FOUND", "REJECTED BY"}, func(n client.Noise) []string {
		by := "-"
		if n.RejectedBy != nil {
			by = *n.RejectedBy
		}
		gap := time.Duration(n.GapMs) * time.Millisecond
		return []string{n.Path, string(n.State), strconv.Itoa(int(n.Pairs)) + " times", gap.String(), instant(&n.FoundAt), by}
	}); err != nil {
		return err
	}
	var found client.NoiseList
	if err := decode(raw, &found); err != nil {
		return err
	}
	if !found.Searched {
		_, _ = fmt.Fprintln(s.stderr, "answers are not searched for noise: the endpoint has a changeKey, planner: off, or stores no answers")
	}
	return nil
}

// judge rejects a finding or takes the rejection back.
func (cmd *endpointsNoiseCmd) judge(ctx context.Context, s *session, r *remote, id string) error {
	verdict := client.NoiseVerdict{Path: cmd.Reject, State: client.NoiseStateRejected}
	if cmd.Accept != "" {
		verdict = client.NoiseVerdict{Path: cmd.Accept, State: client.NoiseStateIgnored}
	}
	raw, err := r.read(r.api.JudgeNoiseWithResponse(ctx, id, verdict))
	if err != nil {
		return err
	}
	return show(s, raw, func(n client.Noise) error {
		return s.say("%s is %s from the next run on", n.Path, n.State)
	})
}
