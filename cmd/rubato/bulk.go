package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"rubato/client"
)

// endpointsExportCmd is `rubato endpoints export`.
type endpointsExportCmd struct {
	serverFlag

	Label      []string `placeholder:"NAME=VALUE" sep:"none" help:"Filter by label; may be repeated."`
	NamePrefix string   `help:"Filter by name prefix."`
	Host       string   `placeholder:"HOST:PORT" help:"Filter by target host, such as api.example.com:8443; the default port is 443."`
	State      string   `enum:",active,paused,archived" default:"" placeholder:"STATE" help:"Filter by state: active, paused or archived. Default: all but archived."`
}

// Run writes endpoints as lines of JSON, in the format of the import.
func (cmd *endpointsExportCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	labels, err := labelFilters(cmd.Label)
	if err != nil {
		return err
	}
	api, err := r.streams()
	if err != nil {
		return err
	}
	body, err := r.stream(api.ExportEndpoints(ctx, &client.ExportEndpointsParams{
		Label:      labels,
		NamePrefix: given(cmd.NamePrefix),
		Host:       given(cmd.Host),
		State:      given(client.EndpointState(cmd.State)),
	}))
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	if _, err := io.Copy(s.stdout, body); err != nil {
		return fmt.Errorf("the export was interrupted; the output is incomplete: %w", err)
	}
	return nil
}

// endpointsImportCmd is `rubato endpoints import`.
type endpointsImportCmd struct {
	serverFlag

	File   string `short:"f" required:"" placeholder:"FILE" help:"File with one JSON object per line, or - for standard input."`
	From   int32  `default:"1" placeholder:"LINE" help:"First line to import. After an interrupted import, the line that its error names."`
	DryRun bool   `help:"Validate and plan without writing."`
}

// Run imports lines and prints the failed ones; with JSON output, it prints the result of each
// line.
func (cmd *endpointsImportCmd) Run(ctx context.Context, s *session) error {
	lines := s.stdin
	if cmd.File != "-" {
		file, err := os.Open(cmd.File)
		if err != nil {
			return usageError{fmt.Sprintf("reading the lines: %s", err)}
		}
		defer func() { _ = file.Close() }()
		lines = file
	}
	r, err := s.connect()
	if err != nil {
		return err
	}
	answer, err := r.importLines(ctx, lines, cmd.From, cmd.DryRun)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Close() }()
	summary, err := readResults(answer, cmd.From, s.printResult)
	if err != nil {
		return fmt.Errorf("continue with --from %d: %w", summary.Summary.NextLine, err)
	}
	return s.printSummary(summary)
}

// printResult prints the result of a line: every result as JSON, otherwise failures only.
func (s *session) printResult(r client.ImportResult, raw json.RawMessage) error {
	switch {
	case s.json:
		return s.printLine(raw)
	case r.Error != nil:
		return s.say("line %d failed: %s", r.Line, lineFault(r.Error))
	default:
		return nil
	}
}

func lineFault(e *client.LineError) string {
	var text strings.Builder
	text.WriteString(e.Detail)
	if e.Errors != nil {
		for _, f := range *e.Errors {
			text.WriteString("\n  " + f.Field + ": " + f.Message)
		}
	}
	return text.String()
}

func (s *session) printSummary(summary client.ImportSummary) error {
	c := summary.Summary
	if !s.json {
		if err := s.say("%d created, %d updated, %d unchanged, %d would be written, %d failed", c.Created, c.Updated, c.Unchanged, c.Valid, c.Failed); err != nil {
			return err
		}
	}
	switch {
	// The message omits --from, because the next line exceeds its range.
	case summary.Error != nil && summary.Error.Code == "too_many_lines":
		return errors.New(summary.Error.Detail)
	case summary.Error != nil && summary.Error.Code == "from_beyond_end":
		return usageError{"--" + summary.Error.Detail}
	case summary.Error != nil:
		return fmt.Errorf("%s; continue with --from %d", summary.Error.Detail, c.NextLine)
	case c.Failed > 0:
		return fmt.Errorf("%d of %d lines failed", c.Failed, c.Lines)
	case c.Lines == 0:
		_, _ = fmt.Fprintf(s.stderr, "no lines from line %d on\n", c.NextLine)
		return nil
	default:
		return nil
	}
}

// readResults reads the response to an import that starts at line from, and calls each for every
// result. A response without a summary was truncated and is an error. NextLine of the summary is
// valid even beside an error, so that the import can continue there.
func readResults(answer io.Reader, from int32, each func(client.ImportResult, json.RawMessage) error) (summary client.ImportSummary, err error) {
	lines := bufio.NewScanner(answer)
	lines.Buffer(nil, 4<<20)
	next, ended := &summary.Summary.NextLine, false
	*next = from
	for lines.Scan() {
		var line struct {
			client.ImportResult
			Summary *client.ImportCounts `json:"summary"`
		}
		raw := bytes.Clone(lines.Bytes())
		if err := decode(raw, &line); err != nil {
			return summary, err
		}
		if line.Summary != nil {
			summary, ended = client.ImportSummary{Summary: *line.Summary, Error: line.Error}, true
			continue
		}
		*next = line.Line + 1
		if err := each(line.ImportResult, raw); err != nil {
			return summary, err
		}
	}
	if err := errors.Join(lines.Err(), noSummary(ended)); err != nil {
		return summary, fmt.Errorf("the response ended early: %w", err)
	}
	return summary, nil
}

func noSummary(ended bool) error {
	if ended {
		return nil
	}
	return errors.New("the server sent no summary")
}
