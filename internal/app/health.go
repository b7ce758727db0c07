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

// healthTimeout bounds one readiness check.
const healthTimeout = 2 * time.Second

// DatabaseAnswers is the readiness check of an API server: one ping through the pool. A worker is
// judged by its claims instead, because a ping would queue behind them for a connection.
func (c *Core) DatabaseAnswers() telemetry.Check {
	return telemetry.Check{
		Name:  "database",
		Ask:   c.DB.Ping,
		Means: "the database does not answer",
	}
}

// Ready returns nil if every check of the running parts holds. Otherwise the error has one field
// per failed check and may be shown to clients.
func (c *Core) Ready(ctx context.Context) error {
	report := c.health.Report(ctx)
	if report.Ready() {
		return nil
	}
	notReady := errs.New(errs.Unavailable, "not_ready", "the server is not ready; try again")
	for _, c := range report.Checks {
		if !c.OK {
			message := c.Error + ", since " + c.Since.Format(time.RFC3339)
			notReady.Fields = append(notReady.Fields, errs.Field{
				Field:   c.Name,
				Code:    "not_ready",
				Message: message,
			})
		}
	}
	return notReady
}

// CheckReady returns nil if the program whose listener has the address, host:port, is ready.
// Containers without a shell run it as their health check, on the admin listener. The error names
// the failed checks.
func CheckReady(ctx context.Context, address string) error {
	if _, port, err := net.SplitHostPort(address); err != nil || port == "0" {
		return fmt.Errorf("checking readiness:  the admin listener %q has no fixed port", address)
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	status, text, err := probe(ctx, "http://"+reachable(address)+"/readyz")
	switch {
	case err != nil:
		return fmt.Errorf("checking readiness:  %w", err)
	case status != http.StatusOK:
		return errors.New(unready(text))
	}
	return nil
}

// unready formats the report of a program that is not ready. It returns any other text unchanged.
func unready(text string) string {
	var report telemetry.Report
	if err := json.Unmarshal([]byte(text), &report); err != nil || report.Status == "" {
		return text
	}
	return report.String()
}

// probe gets a URL and returns the status and the first 4 KiB of the body.
func probe(ctx context.Context, url string) (status int, text string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	// Closing the connection leaves no idle goroutine behind.
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, 4<<10))
	return res.StatusCode, strings.TrimSpace(string(body)), err
}
