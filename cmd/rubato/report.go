package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path"

	"rubato/client"
)

// runsReportCmd is `rubato runs report`.
type runsReportCmd struct {
	serverFlag

	Callback string  `arg:"" help:"Callback URL of the run, from the request header Rubato-Callback-URL, or its token."`
	Status   string  `default:"succeeded" enum:"succeeded,failed,progress" help:"Status of the run: succeeded, failed, or progress, which restarts its wait."`
	Body     *string `placeholder:"JSON" xor:"body" help:"Result of the run in JSON."`
	BodyFile string  `placeholder:"FILE" xor:"body" help:"File with the result in JSON, or - for standard input."`
	Error    string  `placeholder:"TEXT" help:"Cause of a failure."`
}

// Run reports the end or the progress of a run.
func (cmd *runsReportCmd) Run(ctx context.Context, s *session) error {
	body, err := cmd.result(s)
	if err != nil {
		return err
	}
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.ReportRunWithResponse(ctx, path.Base(cmd.Callback), client.RunReport{
		Status: client.RunReportStatus(cmd.Status),
		Body:   body,
		Error:  given(cmd.Error),
	}))
	if err != nil {
		return err
	}
	if s.json {
		return s.print(raw)
	}
	var done client.RunReportResult
	if err := json.Unmarshal(raw, &done); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if done.SuspendedUntil != nil {
		return s.say("%s goes on, at most until %s", done.RunID, instant(done.SuspendedUntil))
	}
	return s.say("%s has ended: %s", done.RunID, done.Status)
}

// result returns the result; nil: none is given.
func (cmd *runsReportCmd) result(s *session) (*any, error) {
	var text []byte
	switch {
	case cmd.Body != nil:
		text = []byte(*cmd.Body)
	case cmd.BodyFile != "":
		read, err := s.readFile(cmd.BodyFile)
		if err != nil {
			return nil, err
		}
		text = read
	default:
		return nil, nil //nolint:nilnil // No result is no error.
	}
	body := new(any)
	if err := json.Unmarshal(text, body); err != nil {
		return nil, fmt.Errorf("--body must be JSON, such as '{\"rows\":7}': %w", err)
	}
	return body, nil
}
