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

// Run asks the server how it is.
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

// unready tells of a server that lives and cannot work, and which of its checks do not hold.
func (s *session) unready(url string, told *client.Problem) error {
	failing := []client.FieldError{}
	if told.Errors != nil {
		failing = *told.Errors
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

// Run prints the contract as the server has it.
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

// maxLine is as long as the body of a request may be, and its line break.
const maxLine = 512<<10 + 2

// newLines reads lines that are bodies of requests.
func newLines(in io.Reader) *bufio.Scanner {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	return lines
}
