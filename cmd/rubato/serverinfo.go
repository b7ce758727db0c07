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
	Status   serverStatusCmd   `cmd:"" help:"Print whether the server lives and whether it can work; the exit code is 1 where it cannot."`
	Contract serverContractCmd `cmd:"" help:"Print the contract of the server's API, an OpenAPI document."`
}

type (
	serverStatusCmd   struct{ serverFlag }
	serverContractCmd struct{ serverFlag }
)

// Run asks the server how it is.
func (*serverStatusCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	if _, err := r.read(r.api.GetHealthWithResponse(ctx)); err != nil {
		return err
	}
	_, err = r.read(r.api.GetReadinessWithResponse(ctx))
	if problem, is := errors.AsType[*client.Problem](err); is && problem.Status == http.StatusServiceUnavailable {
		if err := s.status(r.url, false); err != nil {
			return err
		}
		return silentError{}
	}
	if err != nil {
		return err
	}
	return s.status(r.url, true)
}

func (s *session) status(url string, ready bool) error {
	if s.json {
		return s.print(map[string]any{"url": url, "live": true, "ready": ready})
	}
	if ready {
		return s.say("%s is ready", url)
	}
	return s.say("%s lives and is not ready", url)
}

// Run prints the contract as the server has it.
func (*serverContractCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
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
