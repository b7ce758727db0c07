package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"rubato/client"
)

// runsRerunCmd is `rubato runs rerun`.
type runsRerunCmd struct {
	serverFlag

	Run_     string         `arg:"" name:"run" help:"Run id (run_...)."` //nolint:revive // Kong calls a method named Run.
	AsNow    bool           `help:"Send the request of the endpoint as it is configured now. Default: the request of that time."`
	SameKey  bool           `help:"Send the Idempotency-Key of the repeated run. Default: a new key."`
	Deadline *time.Duration `placeholder:"DURATION" help:"Maximum wait for the start, such as 10m. Default: no limit."`
	Priority string         `enum:",low,normal,high,critical" default:"" placeholder:"PRIORITY" help:"Priority among queued one-off runs: low, normal, high or critical. Default: normal."`
	Force    bool           `help:"Send the first attempt even if the circuit breaker of the host is open, as a probe. Default: wait for the end of the window."`
	Once     string         `placeholder:"KEY" help:"Idempotency key: a repeated request with it within 24 hours returns the first run."`
}

// Run queues the rerun.
func (cmd *runsRerunCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	body := client.RerunRequest{IdempotencyKey: given(cmd.Once)}
	if cmd.AsNow {
		body.As = new(client.RerunRequestAsNow)
	}
	if cmd.SameKey {
		body.SameIdempotencyKey = new(true)
	}
	if cmd.Deadline != nil {
		body.DeadlineMs = new(cmd.Deadline.Milliseconds())
	}
	if cmd.Priority != "" {
		body.Priority = new(client.RerunRequestPriority(cmd.Priority))
	}
	if cmd.Force {
		body.Force = new(true)
	}
	raw, err := r.read(r.api.RerunRunWithResponse(ctx, cmd.Run_, body))
	if err != nil {
		return err
	}
	return show(s, raw, s.sayPlanned)
}

// sayPlanned reports a queued one-off run.
func (s *session) sayPlanned(planned client.PlannedRun) error {
	switch {
	case planned.CallID != nil:
		return s.say("call %s repeats the run", *planned.CallID)
	case planned.Repeated != nil && *planned.Repeated:
		return s.say("%s is the existing run with this idempotency key", planned.RunID)
	case planned.Waiting != nil && *planned.Waiting > 1:
		return s.say("%s is queued; %d one-off runs are queued in total", planned.RunID, *planned.Waiting)
	default:
		return s.say("%s is queued", planned.RunID)
	}
}

// printCurl prints the request of a run as a command of curl.
func (s *session) printCurl(raw json.RawMessage) error {
	var r client.Run
	if err := decode(raw, &r); err != nil {
		return err
	}
	if r.Request == nil {
		return errors.New("print the request: its configuration is no longer kept, or nothing was sent")
	}
	return s.say("%s", text(r.Request.Curl))
}
