package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"rubato/client"
)

// deadLettersCmd is `rubato dead-letters`.
type deadLettersCmd struct {
	List    lettersListCmd    `cmd:"" help:"Print dead letters, newest due time first."`
	Get     lettersGetCmd     `cmd:"" help:"Print one dead letter with its request and the head of the response."`
	Replay  lettersReplayCmd  `cmd:"" help:"Queue a one-off run for a dead letter, or for those that match."`
	Discard lettersDiscardCmd `cmd:"" help:"Discard a dead letter for a reason."`
}

type lettersListCmd struct {
	serverFlag

	Endpoint string `help:"Filter by endpoint, given as id or key."`
	State    string `enum:",open,replayed,discarded" default:"" placeholder:"STATE" help:"Filter by state: open, replayed or discarded."`
	Reason   string `placeholder:"CODE" help:"Filter by reason, such as http_status or timeout."`
	Limit    int32  `default:"50" help:"Maximum number of results."`
	Cursor   string `help:"Cursor of the next page, from the previous list."`
}

// Run lists dead letters.
func (cmd *lettersListCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	p := client.ListDeadLettersParams{
		ReasonCode: given(cmd.Reason),
		Limit:      &cmd.Limit,
		Cursor:     given(cmd.Cursor),
	}
	if cmd.State != "" {
		p.State = new(client.DeadLetterState(cmd.State))
	}
	if cmd.Endpoint != "" {
		id, err := r.endpointID(ctx, cmd.Endpoint)
		if err != nil {
			return err
		}
		p.EndpointID = &id
	}
	raw, err := r.read(r.api.ListDeadLettersWithResponse(ctx, &p))
	if err != nil {
		return err
	}
	header := []string{"DUE", "STATE", "STATUS", "REASON", "ATTEMPTS", "ENDPOINT", "ID"}
	row := func(l client.DeadLetter) []string {
		return []string{
			instant(&l.ScheduledFor), string(l.State), string(l.Status), l.ReasonCode, strconv.Itoa(int(l.Attempts)), l.EndpointID, l.ID,
		}
	}
	if err := list(s, raw, header, row); err != nil {
		return err
	}
	return s.remarkNone(raw, "no dead letters match")
}

type lettersGetCmd struct {
	serverFlag

	ID string `arg:"" help:"Dead letter id (dl_...)."`
}

// Run prints a dead letter.
func (cmd *lettersGetCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.GetDeadLetterWithResponse(ctx, cmd.ID))
	if err != nil {
		return err
	}
	return show(s, raw, func(l client.DeadLetter) error { return s.facts(letterFacts(l)) })
}

func letterFacts(l client.DeadLetter) [][2]string {
	facts := [][2]string{
		{"id", l.ID},
		{"state", string(l.State)},
		{"endpoint", l.EndpointID},
		{"run", l.RunID},
		{"due", instant(&l.ScheduledFor)},
		{"given up", instant(&l.CreatedAt)},
		{"status", string(l.Status)},
		{"reason", l.ReasonCode},
		{"answer", statusText(l.StatusCode)},
		{"error", text(l.Error)},
		{"attempts", strconv.Itoa(int(l.Attempts))},
		{"infra attempts", positive(l.InfraAttempts)},
		{"handled", instant(l.HandledAt)},
		{"handled by", text(l.HandledBy)},
		{"because", text(l.Reason)},
		{"replayed as", text(l.ReplayRunID)},
		{"body", strings.TrimSpace(text(l.Body))},
	}
	if l.Request != nil {
		facts = append(facts, [2]string{"request", text(l.Request.Curl)})
	}
	return facts
}

type lettersReplayCmd struct {
	serverFlag

	ID        string  `arg:"" optional:"" help:"Dead letter id (dl_...). Without it, the open dead letters that match --endpoint and --reason are replayed, oldest first."`
	All       bool    `help:"Replay all open dead letters, up to --limit."`
	NewKey    bool    `help:"Send a new Idempotency-Key. Default: that of the run that was given up."`
	Endpoint  string  `help:"Replay those of an endpoint, given as id or key."`
	Reason    *string `placeholder:"CODE" help:"Replay those with a reason, such as connect_error."`
	PerMinute int32   `placeholder:"N" help:"Maximum number of runs that start per minute. Default: all at once."`
	Limit     int32   `default:"100" help:"Maximum number of replayed dead letters, at most 500."`
	After     string  `placeholder:"ID" help:"Continue after a dead letter, as the command before said."`
}

// Run replays one dead letter or those that match.
func (cmd *lettersReplayCmd) Run(ctx context.Context, s *session) error {
	if err := cmd.selected(); err != nil {
		return err
	}
	r, err := s.connect()
	if err != nil {
		return err
	}
	if cmd.ID == "" {
		return cmd.many(ctx, s, r)
	}
	raw, err := r.read(r.api.ReplayDeadLetterWithResponse(ctx, cmd.ID, client.DeadLetterReplay{NewIdempotencyKey: &cmd.NewKey}))
	if err != nil {
		return err
	}
	return show(s, raw, s.sayPlanned)
}

// selected returns an error unless the arguments say in exactly one way which dead letters are
// replayed. [namesNothing] has refused an empty id and an empty --endpoint, such as those of an
// unset shell variable.
func (cmd *lettersReplayCmd) selected() error {
	filtered := cmd.Endpoint != "" || cmd.Reason != nil
	switch {
	case cmd.Reason != nil && *cmd.Reason == "":
		return usageError{"--reason is empty; nothing was replayed"}
	case cmd.ID != "" && (cmd.All || filtered || cmd.PerMinute != 0 || cmd.After != ""):
		return usageError{"the id of a dead letter excludes --all, --endpoint, --reason, --per-minute and --after"}
	case cmd.All && filtered:
		return usageError{"--all excludes --endpoint and --reason"}
	case cmd.ID == "" && !cmd.All && !filtered:
		return usageError{"give the id of a dead letter, --endpoint, --reason, or --all to replay all open dead letters"}
	}
	return nil
}

// many replays the dead letters that match.
func (cmd *lettersReplayCmd) many(ctx context.Context, s *session, r *remote) error {
	body := client.DeadLetterReplayAll{
		ReasonCode:        cmd.Reason,
		Limit:             &cmd.Limit,
		NewIdempotencyKey: &cmd.NewKey,
		After:             given(cmd.After),
	}
	if cmd.PerMinute != 0 {
		body.PerMinute = &cmd.PerMinute
	}
	if cmd.Endpoint != "" {
		id, err := r.endpointID(ctx, cmd.Endpoint)
		if err != nil {
			return err
		}
		body.EndpointID = &id
	}
	raw, err := r.read(r.api.ReplayDeadLettersWithResponse(ctx, body))
	if err != nil {
		return err
	}
	var done client.DeadLetterReplayResult
	if err := decode(raw, &done); err != nil {
		return err
	}
	if err := show(s, raw, s.sayReplays); err != nil {
		return err
	}
	if n := len(done.Refused); n > 0 {
		return fmt.Errorf("%d dead letters were refused and stay open; each is listed with its reason", n)
	}
	return nil
}

// sayReplays prints the dead letters that were refused, and the number of those that were replayed.
func (s *session) sayReplays(done client.DeadLetterReplayResult) error {
	for _, refused := range done.Refused {
		if err := s.say("%s stays open: %s (%s)", refused.ID, refused.Message, refused.Code); err != nil {
			return err
		}
	}
	switch {
	case done.Remaining && done.Next != nil && len(done.Refused) > 0:
		return s.say("%d dead letters are replayed; more match: repeat the command with --after %s", done.Replayed, *done.Next)
	case done.Remaining:
		return s.say("%d dead letters are replayed; more match: repeat the command", done.Replayed)
	default:
		return s.say("%d dead letters are replayed", done.Replayed)
	}
}

type lettersDiscardCmd struct {
	serverFlag

	ID     string `arg:"" help:"Dead letter id (dl_...)."`
	Reason string `required:"" help:"Reason why the run is not sent again."`
}

// Run discards a dead letter.
func (cmd *lettersDiscardCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.DiscardDeadLetterWithResponse(ctx, cmd.ID, client.DeadLetterDiscard{Reason: cmd.Reason}))
	if err != nil {
		return err
	}
	return show(s, raw, func(l client.DeadLetter) error { return s.say("%s is discarded", l.ID) })
}
