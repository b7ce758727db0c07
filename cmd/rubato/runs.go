package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"rubato/client"
	"rubato/internal/contract"
	"rubato/internal/sourcetext"
)

// runsCmd is `rubato runs`.
type runsCmd struct {
	List   runsListCmd   `cmd:"" help:"Print runs, newest due time first."`
	Get    runsGetCmd    `cmd:"" help:"Print one run with its response and the decision that followed."`
	Events runsEventsCmd `cmd:"" help:"Print the events of one run, from its claim to its end."`
	Cancel runsCancelCmd `cmd:"" help:"Cancel a run in progress. Its endpoint continues with its next due time."`
	Report runsReportCmd `cmd:"" help:"Report the end or the progress of an asynchronous run, as its target."`
	Rerun  runsRerunCmd  `cmd:"" help:"Queue a one-off run that repeats a finished run, with its request."`
	Watch  runsWatchCmd  `cmd:"" help:"Print runs as they finish, until interrupted."`
}

type runsListCmd struct {
	serverFlag

	period

	Endpoint string   `help:"Filter by endpoint, given as id or key."`
	Status   []string `placeholder:"STATUS" help:"Filter by status, such as failed or running; repeat it or separate several by commas."`
	Limit    int32    `default:"50" help:"Maximum number of results."`
	Cursor   string   `help:"Cursor of the next page, from the previous list."`
}

type runsGetCmd struct {
	serverFlag

	Run_ string `arg:"" name:"run" help:"Run id (run_...)."` //nolint:revive // Kong calls a method named Run.
	Curl bool   `help:"Print the request of the run as a shell command of curl; secrets stay references."`
}

// answered summarizes the result of a run in a few words.
func answered(r client.Run) string {
	if r.StatusCode != nil {
		code := strconv.Itoa(int(*r.StatusCode))
		// The status alone would not explain the failure, because it may be 200.
		if text(r.ReasonCode) == "success_rule_failed" {
			return code + ", a rule failed"
		}
		return code
	}
	if s := r.Skipped; s != nil && s.Count > 1 {
		return fmt.Sprintf("%s, %d since %s", text(r.ReasonCode), s.Count, instant(&s.From))
	}
	return dash(text(r.ReasonCode))
}

func runHeader() []string {
	return []string{"DUE", "STATUS", "ANSWER", "LAG", "TOOK", "BECAUSE", "ENDPOINT", "ID"}
}

func runRow(r client.Run) []string {
	return []string{
		instant(&r.ScheduledFor), string(r.Status), answered(r), took(r.StartLagMs), took(r.DurationMs), sourcetext.Source(string(r.Source)),
		r.EndpointID, r.ID,
	}
}

// took formats milliseconds without trailing zeros.
func took(ms *float64) string {
	if ms == nil {
		return "-"
	}
	return strconv.FormatFloat(*ms, 'f', -1, 64) + "ms"
}

// Run lists runs.
func (cmd *runsListCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := cmd.ask(ctx, r)
	if err != nil {
		return err
	}
	if err := list(s, raw, runHeader(), runRow); err != nil {
		return err
	}
	return s.remarkNone(raw, "no runs match")
}

// ask requests a page of runs, of one endpoint if --endpoint is given.
func (cmd *runsListCmd) ask(ctx context.Context, r *remote) (json.RawMessage, error) {
	var status *client.Status
	for _, one := range cmd.Status {
		if status == nil {
			status = new(client.Status)
		}
		*status = append(*status, client.RunStatus(one))
	}
	from, to := cmd.bounds(time.Now())
	if cmd.Endpoint == "" {
		return r.read(r.api.ListRunsWithResponse(ctx, &client.ListRunsParams{
			Status: status,
			From:   from,
			To:     to,
			Limit:  &cmd.Limit,
			Cursor: given(cmd.Cursor),
		}))
	}
	id, err := r.endpointID(ctx, cmd.Endpoint)
	if err != nil {
		return nil, err
	}
	return r.read(r.api.ListEndpointRunsWithResponse(ctx, id, &client.ListEndpointRunsParams{
		Status: status,
		From:   from,
		To:     to,
		Limit:  &cmd.Limit,
		Cursor: given(cmd.Cursor),
	}))
}

// since returns an instant in UTC, or nil for the zero time, because that means an absent flag.
func since(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}

// Run prints a run.
func (cmd *runsGetCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.GetRunWithResponse(ctx, cmd.Run_))
	if err != nil {
		return err
	}
	if cmd.Curl {
		return s.printCurl(raw)
	}
	if s.json {
		return s.print(raw)
	}
	return s.printRun(ctx, r, raw)
}

// printRun prints the most important fields of a run.
func (s *session) printRun(ctx context.Context, server *remote, raw json.RawMessage) error {
	var r client.Run
	if err := decode(raw, &r); err != nil {
		return err
	}
	failure, err := server.failureFacts(ctx, r)
	if err != nil {
		return err
	}
	facts := [][2]string{
		{"id", r.ID},
		{"endpoint", r.EndpointID},
		{"status", string(r.Status)},
		{"reason", text(r.ReasonCode)},
		{"answer", statusText(r.StatusCode)},
		{"error", text(r.Error)},
		{"due", instant(&r.ScheduledFor)},
		{"skipped", skippedText(r.Skipped)},
		{"started", instant(r.StartedAt)},
		{"finished", instant(r.FinishedAt)},
		{"lag", took(r.StartLagMs)},
		{"took", took(r.DurationMs)},
		{"attempt", strconv.Itoa(int(r.Attempt))},
		{"infra attempt", positive(r.InfraAttempt)},
		{"rerun of", text(r.RerunOf)},
		{"because", string(r.Source)},
		{"content type", text(r.ContentType)},
		{"body", strings.TrimSpace(text(r.Body))},
		{"body tail", strings.TrimSpace(text(r.BodyTail))},
	}
	if d := r.Decision; d != nil {
		facts = append(facts, [2]string{"next run", dash(instant(d.NextRunAt)) + ", " + string(d.Source)})
		facts = append(facts, traceFacts(d.Steps)...)
	}
	return s.facts(append(facts, failure...))
}

// failureFacts returns the endpoint's fields that help with a failure, e.g. a runbook. It returns
// none if the run did not fail.
func (r *remote) failureFacts(ctx context.Context, run client.Run) ([][2]string, error) {
	fields := contract.OnFailure()
	if !run.Status.Failed() || len(fields) == 0 || strings.HasPrefix(run.EndpointID, "call_") { // A call has no such fields.
		return nil, nil
	}
	raw, err := r.read(r.api.GetEndpointWithResponse(ctx, run.EndpointID))
	if err != nil {
		return nil, err
	}
	var endpoint map[string]any
	err = decode(raw, &endpoint)
	facts := make([][2]string, len(fields))
	for i, f := range fields {
		facts[i] = fieldFact(f, f.Value(endpoint))
	}
	return facts, err
}

// skippedText formats the range of skipped due times.
func skippedText(s *client.SkippedDueTimes) string {
	if s == nil {
		return ""
	}
	return fmt.Sprintf("%d, from %s to %s", s.Count, instant(&s.From), instant(&s.To))
}

// positive formats a number; it is empty for 0.
func positive(n int32) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(int(n))
}

func statusText(code *int32) string {
	if code == nil {
		return ""
	}
	return fmt.Sprintf("%d %s", *code, http.StatusText(int(*code)))
}
