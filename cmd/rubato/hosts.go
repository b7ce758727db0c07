package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"rubato/client"
)

// hostsCmd is `rubato hosts`.
type hostsCmd struct {
	List  hostsListCmd  `cmd:"" help:"Print target hosts with failures or settings, sorted by name."`
	Get   hostsGetCmd   `cmd:"" help:"Print the circuit breaker of one host."`
	Set   hostsSetCmd   `cmd:"" help:"Change when the circuit breaker of a host opens, and how many requests the host gets."`
	Reset hostsResetCmd `cmd:"" help:"Close the circuit breaker of a host, so that it is called again."`
}

type (
	hostsListCmd struct {
		serverFlag

		Limit  int32  `default:"50" help:"Maximum number of results."`
		Cursor string `help:"Cursor of the next page, from the previous list."`
	}
	hostsGetCmd struct {
		serverFlag

		Host string `arg:"" help:"Host and port, such as api.example.com:8443; the default port is 443."`
	}
	hostsSetCmd struct {
		serverFlag

		Host     string         `arg:"" help:"Host and port, such as api.example.com:8443; the default port is 443."`
		Failures *int64         `help:"Number of failures in a row that open the breaker; 0 restores the default." placeholder:"N"`
		Window   *time.Duration `help:"Length of the first window without requests; 0s restores the default." placeholder:"DURATION"`

		Concurrency *int64   `help:"Most requests in flight, of all workers together; 0 removes the limit." placeholder:"N"`
		Rate        *float64 `help:"Most requests per second, of all workers together; 0 removes the limit." placeholder:"N"`
	}
	hostsResetCmd struct {
		serverFlag

		Host string `arg:"" help:"Host and port, such as api.example.com:8443; the default port is 443."`
	}
)

// Run lists hosts.
func (cmd *hostsListCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.ListHostsWithResponse(ctx, &client.ListHostsParams{Limit: &cmd.Limit, Cursor: given(cmd.Cursor)}))
	if err != nil {
		return err
	}
	return list(s, raw, []string{"HOST", "STATE", "FAILURES", "OPEN UNTIL", "WINDOWS", "PROBES", "WAITING", "LIMITS", "ADAPTIVE"}, func(h client.Host) []string {
		return []string{
			h.Host, string(h.State), strconv.FormatInt(h.Failures, 10), instant(h.OpenUntil), strconv.FormatInt(h.Windows, 10), strconv.FormatInt(h.Probes, 10),
			waitingText(h), limitsText(h.Limits), limitsText(h.Adaptive),
		}
	})
}

// waitingText says how many endpoints of a host wait.
func waitingText(h client.Host) string { return fmt.Sprintf("%d of %d", h.Waiting, h.Endpoints) }

// Run prints a host.
func (cmd *hostsGetCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.GetHostWithResponse(ctx, cmd.Host))
	if err != nil {
		return err
	}
	return show(s, raw, func(h client.Host) error {
		return s.facts([][2]string{
			{"host", h.Host},
			{"state", string(h.State)},
			{"since", instant(&h.Since)},
			{"failures", strconv.FormatInt(h.Failures, 10) + " in a row; opens at " + strconv.FormatInt(h.FailuresToOpen, 10)},
			{"first window", (time.Duration(h.WindowMs) * time.Millisecond).String()},
			{"windows", strconv.FormatInt(h.Windows, 10)},
			{"open until", instant(h.OpenUntil)},
			{"probes", strconv.FormatInt(h.Probes, 10)},
			{"waiting", waitingText(h)},
			{"limits", limitsText(h.Limits)},
			{"adaptive limits", limitsText(h.Adaptive)},
			{"held until", instant(h.HeldUntil)},
		})
	})
}

// Run changes the settings of a host.
func (cmd *hostsSetCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	// A map, because the client's type cannot tell null from absent.
	patch, limits := map[string]any{}, map[string]any{}
	if n := cmd.Failures; n != nil {
		patch["failuresToOpen"] = orDefault(*n)
	}
	if d := cmd.Window; d != nil {
		patch["windowMs"] = orDefault(d.Milliseconds())
	}
	if n := cmd.Concurrency; n != nil {
		limits["concurrency"] = orDefault(*n)
	}
	if n := cmd.Rate; n != nil {
		limits["rate"] = orDefault(*n)
	}
	if len(limits) > 0 {
		patch["limits"] = limits
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.PatchHostWithBodyWithResponse(ctx, cmd.Host, "application/json", bytes.NewReader(body)))
	if err != nil {
		return err
	}
	return show(s, raw, func(h client.Host) error {
		return s.say("the breaker of %s opens after %d failures in a row, first for %s; limits: %s", h.Host, h.FailuresToOpen,
			time.Duration(h.WindowMs)*time.Millisecond, limitsText(h.Limits))
	})
}

// limitsText returns limits in words.
func limitsText(l client.HostLimits) string {
	var parts []string
	if l.Concurrency != nil {
		parts = append(parts, fmt.Sprintf("%.0f in flight", *l.Concurrency))
	}
	if l.Rate != nil {
		parts = append(parts, fmt.Sprintf("%.4g/s", *l.Rate))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// orDefault returns null for zero, which restores the default.
func orDefault[N int64 | float64](n N) *N {
	if n == 0 {
		return nil
	}
	return &n
}

// Run closes the breaker of a host.
func (cmd *hostsResetCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.ResetHostWithResponse(ctx, cmd.Host))
	if err != nil {
		return err
	}
	return show(s, raw, func(h client.Host) error { return s.say("%s is called again", h.Host) })
}
