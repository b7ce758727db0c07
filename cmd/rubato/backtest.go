package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"rubato/client"
	"rubato/internal/app/apiserver"
)

// backtestCmd is `rubato backtest`.
type backtestCmd struct {
	serverFlag

	Endpoint string   `required:"" help:"Endpoint, given as id or key."`
	Policy   []string `sep:"none" default:"act" help:"Policy to compare with the record: off, observe, suggest, act, fixed, or an object with a name and fields of the endpoint; may be repeated."`
	Days     float64  `default:"30" help:"Days of history, up to now."`
}

// Help describes policies and bounds.
func (*backtestCmd) Help() string {
	return `Example: rubato backtest --endpoint shop --days 7 --policy act --policy '{name: half, planner: off, baselineIntervalMs: 120000}'
A change happened between two recorded requests, at an unknown time. Therefore each figure has bounds: for changes right after the earlier request, and for changes right before the later one.`
}

// Run prints a row of the recorded runs and a row per policy.
func (cmd *backtestCmd) Run(ctx context.Context, s *session) error {
	if !(cmd.Days > 0 && cmd.Days <= maxDays) {
		return usageError{"--days: must be more than 0 and at most " + strconv.Itoa(maxDays)}
	}
	policies, err := cmd.policies()
	if err != nil {
		return err
	}
	r, id, err := s.connectTo(ctx, cmd.Endpoint)
	if err != nil {
		return err
	}
	endpoint, err := r.read(r.api.GetEndpointWithResponse(ctx, id))
	if err != nil {
		return err
	}
	from := time.Now().Add(-time.Duration(cmd.Days * 24 * float64(time.Hour)))
	recorded, err := r.recordedRuns(ctx, id, from)
	if err != nil {
		return err
	}
	raw, faults, err := apiserver.Backtest{
		Endpoint: endpoint,
		Policies: policies,
		Runs:     recorded,
	}.Run(ctx)
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		lines := make([]string, len(faults))
		for i, f := range faults {
			lines[i] = strings.Replace(f.Field, "policies", "--policy", 1) + ": " + f.Message
		}
		return usageError{strings.Join(lines, "\n")}
	}
	return list(s, raw, []string{"POLICY", "POLLS", "CHANGES", "MEAN DELAY", "P95 DELAY", "POLLS SAVED", "FOUND SOONER"}, backtestRow)
}

// policies parses the policies: names, or objects in the notation of YAML.
func (cmd *backtestCmd) policies() ([]any, error) {
	list := make([]any, len(cmd.Policy))
	for i, text := range cmd.Policy {
		if list[i] = text; !strings.HasPrefix(strings.TrimSpace(text), "{") {
			continue
		}
		y := endpointYAML{file: "--policy"}
		if y.scenario([]byte(text)); len(y.faults) > 0 {
			return nil, faultError(y.faults)
		}
		var object map[string]any
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			return nil, usageError{"--policy: " + err.Error()}
		}
		list[i] = object
	}
	return list, nil
}

// backtestPage is the number of runs per request.
const backtestPage = 500

// recordedRuns returns the runs of an endpoint since an instant that sent a request, oldest first.
func (r *remote) recordedRuns(ctx context.Context, id string, from time.Time) (recorded []apiserver.RecordedRun, err error) {
	var cursor *client.Cursor
	for {
		raw, err := r.read(r.api.ListEndpointRunsWithResponse(ctx, id, &client.ListEndpointRunsParams{
			From:   since(from),
			Limit:  new(client.Limit(backtestPage)),
			Cursor: cursor,
		}))
		if err != nil {
			return nil, err
		}
		var page client.RunList
		if err := decode(raw, &page); err != nil {
			return nil, err
		}
		for _, run := range page.Items {
			one, sent, err := recordedRun(run)
			if err != nil {
				return nil, err
			}
			if sent {
				recorded = append(recorded, one)
			}
		}
		if page.NextCursor == nil {
			slices.SortStableFunc(recorded, func(a, b apiserver.RecordedRun) int { return a.At.Compare(b.At) })
			return recorded, nil
		}
		cursor = page.NextCursor
	}
}

// recordedRun returns a run as far as a backtest depends on it. sent is false if the run is live or
// says nothing about the target.
func recordedRun(run client.Run) (one apiserver.RecordedRun, sent bool, err error) {
	if run.StartedAt == nil {
		return one, false, nil
	}
	one.At = *run.StartedAt
	switch run.Status {
	case client.RunStatusSucceeded:
		one.Unchanged = run.StatusCode != nil && *run.StatusCode == http.StatusNotModified
		if run.BodyDigest == nil {
			return one, true, nil
		}
		if one.Digest, err = strconv.ParseUint(*run.BodyDigest, 16, 64); err != nil {
			return one, false, fmt.Errorf("reading the digest of run %s: %w", run.ID, err)
		}
		return one, true, nil
	case client.RunStatusFailed, client.RunStatusTimedOut:
		one.Failed = true
		return one, true, nil
	default:
		return one, false, nil
	}
}

// backtested is a row of a backtest as its table shows it.
type backtested struct {
	Policy                  string
	Polls                   bounded
	Changes                 int64
	MeanDelayMs, P95DelayMs bounded
	// PollsSaved and SoonerMs compare with the record; nil: there is nothing to compare.
	PollsSaved, SoonerMs *bounded
}

type bounded struct{ Least, Most float64 }

// text returns the bounds in a form, or one value if they are equal.
func (b bounded) text(form func(float64) string) string {
	if least, most := form(b.Least), form(b.Most); least != most {
		return least + " to " + most
	}
	return form(b.Least)
}

func backtestRow(b backtested) []string {
	count := func(v float64) string { return strconv.FormatInt(int64(v), 10) }
	delay := func(v float64) string { return milliseconds(int64(v)) }
	saved, sooner := "-", "-"
	if b.PollsSaved != nil {
		saved = b.PollsSaved.text(func(v float64) string { return strconv.FormatFloat(100*v, 'f', 0, 64) + " %" })
	}
	if b.SoonerMs != nil {
		sooner = b.SoonerMs.text(delay)
	}
	return []string{b.Policy, b.Polls.text(count), strconv.FormatInt(b.Changes, 10), b.MeanDelayMs.text(delay), b.P95DelayMs.text(delay), saved, sooner}
}
