package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"rubato/client"
)

// statsCmd is `rubato stats`.
type statsCmd struct {
	serverFlag
}

// Run prints the number of due and running endpoints, and statistics of recent runs.
func (cmd *statsCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.GetStatsWithResponse(ctx))
	if err != nil {
		return err
	}
	return show(s, raw, func(st client.Stats) error {
		ended := make([]string, 0, len(st.Recent.Statuses))
		for _, status := range slices.Sorted(maps.Keys(st.Recent.Statuses)) {
			ended = append(ended, fmt.Sprintf("%s %d", status, st.Recent.Statuses[status]))
		}
		return s.table([]string{"WHAT", "NOW"}, [][]string{
			{"due", strconv.FormatInt(st.Due, 10)},
			{"oldest due", strconv.FormatInt(st.OldestDueMs, 10) + "ms"},
			{"running", strconv.FormatInt(st.Running, 10)},
			{"newest runs", dash(strings.Join(ended, ", "))},
			{"start lag", spread(st.Recent.StartLagMs)},
			{"latency", spread(st.Recent.LatencyMs)},
		})
	})
}

func spread(p client.Spread) string {
	return fmt.Sprintf("p50 %s, p95 %s, p99 %s", took(&p.P50), took(&p.P95), took(&p.P99))
}

// endpointsHealthCmd is `rubato endpoints health`.
type endpointsHealthCmd struct{ endpointArg }

// Run prints success rate and latency of an endpoint per window.
func (cmd *endpointsHealthCmd) Run(ctx context.Context, s *session) error {
	r, id, err := s.connectTo(ctx, cmd.Endpoint)
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.GetEndpointHealthWithResponse(ctx, id))
	if err != nil {
		return err
	}
	return list(s, raw, []string{"LAST", "RUNS", "SUCCEEDED", "FAILED", "SKIPPED", "RATE", "LATENCY"}, func(h client.HealthWindow) []string {
		rate := "-"
		if h.SuccessRate != nil {
			rate = strconv.FormatFloat(100**h.SuccessRate, 'f', 2, 64) + "%"
		}
		return []string{
			fmt.Sprintf("%dh", h.WindowMs/3_600_000), strconv.FormatInt(h.Runs, 10), strconv.FormatInt(h.Succeeded, 10),
			strconv.FormatInt(h.Failed, 10), strconv.FormatInt(h.Skipped, 10), rate, spread(h.LatencyMs),
		}
	})
}
