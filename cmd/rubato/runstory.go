package main

import (
	"context"
	"strconv"
	"strings"

	"rubato/client"
)

// runArg is the argument of commands on one run.
type runArg struct {
	serverFlag

	ID string `arg:"" name:"run" help:"Run id (run_...)."`
}

type (
	runsEventsCmd struct{ runArg }
	runsCancelCmd struct {
		runArg

		Reason string `help:"Reason, shown to other users."`
	}
)

// Run requests the cancellation of a run.
func (cmd *runsCancelCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.CancelRunWithResponse(ctx, cmd.ID, client.CancelRequest{Reason: given(cmd.Reason)}))
	if err != nil {
		return err
	}
	if s.json {
		return s.print(raw)
	}
	return s.say("%s is being canceled", cmd.ID)
}

// Run prints the events of a run.
func (cmd *runsEventsCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.ListRunEventsWithResponse(ctx, cmd.ID))
	if err != nil {
		return err
	}
	if err := list(s, raw, []string{"AT", "WHAT", "BY", "DETAIL"}, func(e client.RunEvent) []string {
		return []string{instant(&e.At), string(e.Kind), dash(eventAuthor(e)), dash(eventDetail(e))}
	}); err != nil {
		return err
	}
	return s.remarkNone(raw, cmd.ID+" records skipped due times and has no events; see rubato runs get "+cmd.ID+" for the reason")
}

// eventAuthor returns the user or else the worker that caused an event.
func eventAuthor(e client.RunEvent) string {
	if e.Author != nil {
		return *e.Author
	}
	return text(e.WorkerID)
}

// eventDetail formats the details of an event on one line.
func eventDetail(e client.RunEvent) string {
	var parts []string
	if e.ClaimToken != nil {
		parts = append(parts, "fence "+strconv.FormatInt(*e.ClaimToken, 10))
	}
	if e.Status != nil {
		parts = append(parts, strings.TrimSpace(string(*e.Status)+" "+text(e.ReasonCode)))
	}
	for _, part := range []string{statusText(e.StatusCode), text(e.Error), text(e.Why)} {
		if part != "" {
			parts = append(parts, strings.Join(strings.Fields(part), " "))
		}
	}
	if d := e.Decision; d != nil {
		parts = append(parts, "next run "+dash(instant(d.NextRunAt))+", "+string(d.Source))
	}
	return strings.Join(parts, "; ")
}
