package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"rubato/client"
)

// endpointsRunCmd is `rubato endpoints run`, which starts a one-off run.
type endpointsRunCmd struct {
	endpointArg

	Body     *string        `xor:"body" help:"Request body to use instead of the endpoint's."`
	BodyFile string         `xor:"body" placeholder:"FILE" help:"File with the request body, or - for standard input."`
	Header   []string       `placeholder:"'NAME: VALUE'" sep:"none" help:"Header to add or to replace; may be repeated."`
	Query    []string       `placeholder:"NAME=VALUE" sep:"none" help:"Query parameter to add or to replace; may be repeated."`
	Deadline *time.Duration `placeholder:"DURATION" help:"Maximum wait for the start, such as 10m. Default: no limit."`
	Priority string         `enum:",low,normal,high,critical" default:"" placeholder:"PRIORITY" help:"Priority among queued one-off runs: low, normal, high or critical. Default: normal."`
	Force    bool           `help:"Send the first attempt even if the circuit breaker of the host is open, as a probe. Default: wait for the end of the window."`
	Once     string         `placeholder:"KEY" help:"Idempotency key: a repeated request with it within 24 hours returns the first run."`
}

// Run queues a one-off run.
func (cmd *endpointsRunCmd) Run(ctx context.Context, s *session) error {
	body, err := cmd.body(s)
	if err != nil {
		return err
	}
	r, id, err := s.connectTo(ctx, cmd.Endpoint)
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.RunEndpointWithResponse(ctx, id, body))
	if err != nil {
		return err
	}
	return show(s, raw, s.sayPlanned)
}

// body returns the request body for the flags.
func (cmd *endpointsRunCmd) body(s *session) (client.OneOffRun, error) {
	fields := map[string]any{}
	if cmd.Body != nil {
		fields["body"] = *cmd.Body
	}
	if cmd.BodyFile != "" {
		text, err := s.readFile(cmd.BodyFile)
		if err != nil {
			return client.OneOffRun{}, err
		}
		fields["body"] = string(text)
	}
	if err := pairs(fields, "headers", cmd.Header, ':'); err != nil {
		return client.OneOffRun{}, err
	}
	if err := pairs(fields, "query", cmd.Query, '='); err != nil {
		return client.OneOffRun{}, err
	}
	if cmd.Deadline != nil {
		fields["deadlineMs"] = cmd.Deadline.Milliseconds()
	}
	if cmd.Priority != "" {
		fields["priority"] = cmd.Priority
	}
	if cmd.Force {
		fields["force"] = true
	}
	if cmd.Once != "" {
		fields["idempotencyKey"] = cmd.Once
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		return client.OneOffRun{}, fmt.Errorf("encoding the flags: %w", err)
	}
	var body client.OneOffRun
	return body, json.Unmarshal(raw, &body)
}
