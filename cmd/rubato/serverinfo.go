package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"

	"rubato/client"
)

// serverCmd is `rubato server`.
type serverCmd struct {
	Status   serverStatusCmd   `cmd:"" help:"Print whether the server is live and ready. The exit code is 1 if it is not."`
	Contract serverContractCmd `cmd:"" help:"Print the server's OpenAPI document."`
}

type (
	serverStatusCmd   struct{ serverFlag }
	serverContractCmd struct{ serverFlag }
)

// Run checks liveness and readiness of the server.
func (*serverStatusCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connectUnsigned()
	if err != nil {
		return err
	}
	if _, err := r.read(r.api.GetHealthWithResponse(ctx)); err != nil {
		return err
	}
	_, err = r.read(r.api.GetReadinessWithResponse(ctx))
	if problem, is := errors.AsType[*client.Problem](err); is && problem.Status == http.StatusServiceUnavailable {
		if err := s.unready(r.url, problem); err != nil {
			return err
		}
		return silentError{}
	}
	if err != nil {
		return err
	}
	if s.json {
		return s.print(map[string]any{"url": r.url, "live": true, "ready": true})
	}
	return s.say("%s is ready", r.url)
}

// unready reports that the server is live but not ready, with its failing checks.
func (s *session) unready(url string, problem *client.Problem) error {
	failing := []client.FieldError{}
	if problem.Errors != nil {
		failing = *problem.Errors
	}
	if s.json {
		checks := make([]map[string]string, len(failing))
		for i, f := range failing {
			checks[i] = map[string]string{"check": f.Field, "error": f.Message}
		}
		return s.print(map[string]any{"url": url, "live": true, "ready": false, "failing": checks})
	}
	if err := s.say("%s is live and not ready", url); err != nil {
		return err
	}
	for _, f := range failing {
		if err := s.say("%s: %s", f.Field, f.Message); err != nil {
			return err
		}
	}
	return nil
}

// Run prints the OpenAPI document of the server.
func (*serverContractCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connectUnsigned()
	if err != nil {
		return err
	}
	text, err := r.read(r.api.GetContractWithResponse(ctx))
	if err != nil {
		return err
	}
	return s.write(text)
}

// maxLine is the maximum length of a line in bytes: a maximal request body and a line break (CR
// LF).
const maxLine = 512<<10 + 2

// newLines returns a scanner of lines, each the body of one request.
func newLines(in io.Reader) *bufio.Scanner {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	return lines
}
