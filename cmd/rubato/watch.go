package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"rubato/client"
)

const (
	// watchOverlap is how far behind the newest finished run another may still turn up: an execution takes up to 30 min, and
	// those seen running are followed however long they take, so this covers starts that came late.
	watchOverlap = time.Minute
	// watchPage is how many runs are asked for at once.
	watchPage = 500
)

// runsWatchCmd is `rubato runs watch`.
type runsWatchCmd struct {
	serverFlag

	Endpoint string        `help:"Only runs of this endpoint: its id or its key."`
	Count    int           `placeholder:"N" help:"Stop after so many runs."`
	Every    time.Duration `default:"1s" help:"How often to look."`
}

// Run prints runs as they finish, until ctx ends.
func (cmd *runsWatchCmd) Run(ctx context.Context, s *session) error {
	if cmd.Every < 10*time.Millisecond {
		return usageError{"--every must be at least 10ms"}
	}
	r, err := s.connect()
	if err != nil {
		return err
	}
	w := &watcher{remote: r, since: time.Now().Add(-watchOverlap), printed: map[string]time.Time{}}
	if cmd.Endpoint != "" {
		if w.endpoint, err = r.endpointID(ctx, cmd.Endpoint); err != nil {
			return err
		}
	}
	if _, err := w.poll(ctx); err != nil { // What finished before was not asked for.
		return err
	}
	ticker := time.NewTicker(cmd.Every)
	defer ticker.Stop()
	for n := 0; cmd.Count == 0 || n < cmd.Count; {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		finished, err := w.poll(ctx)
		if err != nil {
			return err
		}
		for _, f := range finished {
			if cmd.Count > 0 && n == cmd.Count {
				return nil
			}
			n++
			if err := s.printFinished(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// watcher tells which runs finished since it last looked. The API lists runs by due time, not by end, so it looks back as far as
// the oldest run that it saw running.
type watcher struct {
	remote   *remote
	endpoint string // id; empty: all
	since    time.Time
	printed  map[string]time.Time // finished runs that were told already, with their due times
}

// finished is a run that is over, as it was read.
type finished struct {
	run client.Run
	raw json.RawMessage
}

// poll returns the runs that finished since the last poll, in the order of their ends.
func (w *watcher) poll(ctx context.Context) ([]finished, error) {
	listed, err := w.list(ctx)
	if err != nil {
		return nil, err
	}
	var fresh []finished
	oldest, newest := time.Now(), w.since
	for _, f := range listed {
		due := f.run.ScheduledFor
		if f.run.Status == client.RunStatusRunning {
			oldest = earlier(oldest, due)
			continue
		}
		if newest.Before(due) {
			newest = due
		}
		if _, told := w.printed[f.run.ID]; !told {
			fresh = append(fresh, f)
			w.printed[f.run.ID] = due
		}
	}
	if horizon := earlier(oldest, newest.Add(-watchOverlap)); horizon.After(w.since) {
		w.since = horizon
	}
	for id, due := range w.printed {
		if due.Before(w.since) {
			delete(w.printed, id)
		}
	}
	slices.SortFunc(fresh, func(a, b finished) int { return compareEnds(a.run, b.run) })
	return fresh, nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func compareEnds(a, b client.Run) int {
	if a.FinishedAt != nil && b.FinishedAt != nil {
		if c := a.FinishedAt.Compare(*b.FinishedAt); c != 0 {
			return c
		}
	}
	return strings.Compare(a.ID, b.ID)
}

// list reads every page of runs that are due since then.
func (w *watcher) list(ctx context.Context) ([]finished, error) {
	params := &client.ListRunsParams{From: since(w.since), Limit: new(client.Limit(watchPage)), EndpointID: given(w.endpoint)}
	var all []finished
	for {
		raw, err := w.remote.read(w.remote.api.ListRunsWithResponse(ctx, params))
		if err != nil {
			return nil, err
		}
		var page struct {
			Items      []json.RawMessage `json:"items"`
			NextCursor string            `json:"nextCursor"`
		}
		if err := decode(raw, &page); err != nil {
			return nil, err
		}
		for _, item := range page.Items {
			f := finished{raw: item}
			if err := decode(item, &f.run); err != nil {
				return nil, err
			}
			all = append(all, f)
		}
		if page.NextCursor == "" {
			return all, nil
		}
		params.Cursor = &page.NextCursor
	}
}

// printFinished prints one run on one line.
func (s *session) printFinished(f finished) error {
	if s.json {
		return s.printLine(f.raw)
	}
	r := f.run
	return s.say("%s  %-9s  %-16s  lag %-7s  took %-9s  %s",
		instant(&r.ScheduledFor), r.Status, answered(r), took(r.StartLagMs), took(r.DurationMs), r.EndpointID)
}
