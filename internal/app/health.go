package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"rubato/internal/errs"
	"rubato/internal/telemetry"
)

// healthTimeout is how long a program may take to say that it is ready.
const healthTimeout = 2 * time.Second

// DatabaseAnswers is the check of an API server. A worker is judged by its claims instead: they need the database, and a statement
// of its own would wait behind them for a connection.
func (c *Core) DatabaseAnswers() telemetry.Check {
	return telemetry.Check{Name: "database", Ask: c.DB.Ping, Means: "the database does not answer"}
}

// Ready tells whether the program that runs on the core is ready, as an error that may be shown: each check that does not hold is a field.
func (c *Core) Ready(ctx context.Context) error {
	report := c.health.Report(ctx)
	if report.Ready() {
		return nil
	}
	told := errs.New(errs.Unavailable, "not_ready", "the server is not ready; try again")
	for _, c := range report.Checks {
		if !c.OK {
			message := c.Error + ", since " + c.Since.Format(time.RFC3339)
			told.Fields = append(told.Fields, errs.Field{Field: c.Name, Code: "not_ready", Message: message})
		}
	}
	return told
}

// CheckReady asks the program that has a listener on an address, host:port, whether it is ready. It is what a container without a shell runs
// as its health check, with the admin listener's address. The error says why not.
func CheckReady(ctx context.Context, address string) error {
	if _, port, err := net.SplitHostPort(address); err != nil || port == "0" {
		return fmt.Errorf("asking whether the program is ready: the admin listener %q has no fixed port", address)
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	status, text, err := probe(ctx, "http://"+reachable(address)+"/readyz")
	switch {
	case err != nil:
		return fmt.Errorf("asking whether the program is ready: %w", err)
	case status != http.StatusOK:
		return errors.New(unready(text))
	}
	return nil
}

// unready words the report of a program that is not ready. What is no report speaks for itself.
func unready(text string) string {
	var report telemetry.Report
	if err := json.Unmarshal([]byte(text), &report); err != nil || report.Status == "" {
		return text
	}
	return report.String()
}

// probe gets a URL and returns the first words of the answer.
func probe(ctx context.Context, url string) (status int, text string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	req.Close = true // One question, one connection: nothing stays behind.
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, 4<<10))
	return res.StatusCode, strings.TrimSpace(string(body)), err
}
