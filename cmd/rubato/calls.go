package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"rubato/client"
)

// callsCmd is `rubato calls`.
type callsCmd struct {
	Send   callsSendCmd   `cmd:"" help:"Send a request once, now or later, without an endpoint."`
	List   callsListCmd   `cmd:"" help:"Print calls, newest first."`
	Show   callsShowCmd   `cmd:"" help:"Print one call with its state and run."`
	Cancel callsCancelCmd `cmd:"" help:"Cancel a call that waits."`
}

type callsSendCmd struct {
	serverFlag

	URL      string         `arg:"" help:"Target URL."`
	Method   string         `help:"Method of the request. Default: POST."`
	Body     *string        `xor:"body" help:"Request body."`
	BodyFile string         `xor:"body" placeholder:"FILE" help:"File with the request body, or - for standard input."`
	Header   []string       `placeholder:"'NAME: VALUE'" sep:"none" help:"Header of the request; may be repeated."`
	Query    []string       `placeholder:"NAME=VALUE" sep:"none" help:"Query parameter of the request; may be repeated."`
	Delay    *time.Duration `placeholder:"DURATION" xor:"start" help:"Time from now to the earliest start, such as 10m."`
	At       *time.Time     `placeholder:"TIME" xor:"start" help:"Earliest start, such as 2026-12-01T08:00:00Z."`
	Deadline *time.Duration `placeholder:"DURATION" help:"Time from now to the latest start of an attempt, such as 1h. Default: no limit."`
	Attempts int            `placeholder:"N" help:"Maximum number of attempts. Default: 1."`
	Callback string         `placeholder:"URL" help:"URL that receives the result."`
	Once     string         `placeholder:"KEY" help:"Deduplication key: a request with it within 24 hours returns the first call."`
	Sign     bool           `help:"Sign the request with your signing keys."`
}

// Run sends a call.
func (cmd *callsSendCmd) Run(ctx context.Context, s *session) error {
	body, err := cmd.body(s)
	if err != nil {
		return err
	}
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.SendCallWithResponse(ctx, body))
	if err != nil {
		return err
	}
	return showCall(s, raw)
}

// body returns the request body for the flags.
func (cmd *callsSendCmd) body(s *session) (body client.CallRequest, err error) {
	fields := map[string]any{"url": cmd.URL}
	if cmd.Body != nil {
		fields["body"] = *cmd.Body
	}
	if cmd.BodyFile != "" {
		text, err := s.readFile(cmd.BodyFile)
		if err != nil {
			return body, err
		}
		fields["body"] = string(text)
	}
	if err := pairs(fields, "headers", cmd.Header, ':'); err != nil {
		return body, err
	}
	if err := pairs(fields, "query", cmd.Query, '='); err != nil {
		return body, err
	}
	if cmd.At != nil {
		fields["notBefore"] = cmd.At
	}
	if cmd.Attempts > 0 {
		fields["retry"] = map[string]int{"maxAttempts": cmd.Attempts}
	}
	if cmd.Sign {
		fields["sign"] = true
	}
	for name, d := range map[string]*time.Duration{"delayMs": cmd.Delay, "deadlineMs": cmd.Deadline} {
		if d != nil {
			fields[name] = d.Milliseconds()
		}
	}
	for name, value := range map[string]string{"method": cmd.Method, "callbackUrl": cmd.Callback, "deduplicationKey": cmd.Once} {
		if value != "" {
			fields[name] = value
		}
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		return body, fmt.Errorf("encoding the flags: %w", err)
	}
	return body, json.Unmarshal(raw, &body)
}

type callsListCmd struct {
	serverFlag

	Open   bool   `help:"List only calls that have not ended."`
	Limit  int32  `default:"50" help:"Maximum number of results."`
	Cursor string `help:"Cursor of the next page, from the previous list."`
}

// Run lists calls.
func (cmd *callsListCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	p := client.ListCallsParams{Limit: &cmd.Limit, Cursor: given(cmd.Cursor)}
	if cmd.Open {
		p.Open = &cmd.Open
	}
	raw, err := r.read(r.api.ListCallsWithResponse(ctx, &p))
	if err != nil {
		return err
	}
	row := func(c client.Call) []string {
		return []string{instant(&c.NotBefore), string(c.State), string(c.Method), c.URL, c.ID}
	}
	if err := list(s, raw, []string{"DUE", "STATE", "METHOD", "URL", "ID"}, row); err != nil {
		return err
	}
	return s.remarkNone(raw, "no calls match")
}

type callsShowCmd struct {
	serverFlag

	ID string `arg:"" help:"Call id (call_...)."`
}

// Run prints a call.
func (cmd *callsShowCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.GetCallWithResponse(ctx, cmd.ID))
	if err != nil {
		return err
	}
	return showCall(s, raw)
}

type callsCancelCmd struct {
	serverFlag

	ID string `arg:"" help:"Call id (call_...)."`
}

// Run cancels a call.
func (cmd *callsCancelCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.CancelCallWithResponse(ctx, cmd.ID))
	if err != nil {
		return err
	}
	return showCall(s, raw)
}

func showCall(s *session, raw []byte) error {
	return show(s, raw, func(c client.Call) error {
		return s.facts([][2]string{
			{"id", c.ID},
			{"state", string(c.State)},
			{"request", string(c.Method) + " " + c.URL},
			{"due", instant(&c.NotBefore)},
			{"deadline", instant(c.DeadlineAt)},
			{"callback", text(c.CallbackURL)},
			{"run", text(c.RunID)},
			{"sent by", c.CreatedBy},
			{"created", instant(&c.CreatedAt)},
		})
	})
}
