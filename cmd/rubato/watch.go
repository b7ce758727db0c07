package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"rubato/client"
)

const (
	// watchRetry is the delay before a reconnect, and watchTries the number of consecutive tries.
	// Together they last 30 s, so that a watch survives a restart of the server.
	watchRetry = time.Second
	watchTries = 30
)

// runsWatchCmd is `rubato runs watch`.
type runsWatchCmd struct {
	serverFlag

	Endpoint string `help:"Filter by endpoint, given as id or key."`
	Count    *int   `placeholder:"N" help:"Stop after this number of runs."`
}

// Run prints runs as they finish, until ctx ends or --count is reached.
func (cmd *runsWatchCmd) Run(ctx context.Context, s *session) error {
	if cmd.Count != nil && *cmd.Count < 1 {
		return usageError{fmt.Sprintf("--count: must be at least 1, not %d; omit it to watch until interrupted", *cmd.Count)}
	}
	r, err := s.connect()
	if err != nil {
		return err
	}
	w := &watcher{remote: r, show: s.printFinished}
	if cmd.Count != nil {
		w.left = *cmd.Count
	}
	w.params.Types = new(string(client.EventTypeRunFinished))
	if cmd.Endpoint != "" {
		id, err := r.endpointID(ctx, cmd.Endpoint)
		if err != nil {
			return err
		}
		w.params.EndpointID = &id
	}
	return w.run(ctx)
}

// watcher follows the event stream of a server and reconnects after a lost connection. It belongs
// to one goroutine.
type watcher struct {
	remote *remote
	params client.WatchEventsParams
	left   int // remaining runs to print; 0: no limit
	show   func(finished) error
}

// finished is a finished run, decoded and as received.
type finished struct {
	run client.Run
	raw json.RawMessage
}

// errEnough ends a watch that has reached --count. errUnprinted ends a watch that cannot write,
// because a new connection would not help.
var (
	errEnough    = errors.New("enough")
	errUnprinted = errors.New("the run could not be printed")
)

func (w *watcher) run(ctx context.Context) error {
	for tries := 0; ; tries++ {
		began, err := w.follow(ctx)
		refused, is := errors.AsType[*client.Problem](err)
		switch {
		case errors.Is(err, errEnough), ctx.Err() != nil:
			return nil //nolint:nilerr // a requested end
		case errors.Is(err, errUnprinted), is && refused.Status < 500 || tries == watchTries || w.params.LastEventID == nil:
			return err
		case began:
			tries = 0
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchRetry):
		}
	}
}

// follow reads one stream to its end. It reports whether the server accepted the stream, which
// resets the count of tries.
func (w *watcher) follow(ctx context.Context) (began bool, err error) {
	api, err := w.remote.streams()
	if err != nil {
		return false, err
	}
	body, err := w.remote.stream(api.WatchEvents(ctx, &w.params))
	if err != nil {
		return false, err
	}
	defer func() { _ = body.Close() }()
	return true, w.read(body)
}

// read parses the server-sent events of a stream. The event id advances only after the event is
// printed, so that a reconnect repeats no event and loses none.
func (w *watcher) read(body io.Reader) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 4<<20)
	var id, data string
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			id = value
		case "data":
			data = value
		case "":
			if err := w.printEvent(data); err != nil {
				return err
			}
			if id != "" {
				w.params.LastEventID = new(id)
			}
			data = ""
		}
	}
	return fmt.Errorf("the server ended the stream: %w", errors.Join(lines.Err(), io.ErrUnexpectedEOF))
}

// printEvent prints the run of an event. It returns errEnough after the last requested run.
func (w *watcher) printEvent(data string) error {
	if data == "" {
		return nil
	}
	var event struct {
		Run json.RawMessage `json:"run"`
	}
	if err := decode(json.RawMessage(data), &event); err != nil {
		return err
	}
	f := finished{raw: event.Run}
	if err := decode(f.raw, &f.run); err != nil {
		return err
	}
	if err := w.show(f); err != nil {
		return fmt.Errorf("%w: %w", errUnprinted, err)
	}
	if w.left--; w.left == 0 {
		return errEnough
	}
	return nil
}

// printFinished prints a run on one line.
func (s *session) printFinished(f finished) error {
	if s.json {
		return s.printLine(f.raw)
	}
	r := f.run
	return s.say("%s  %-9s  %-16s  lag %-7s  took %-9s  %s",
		instant(&r.ScheduledFor), r.Status, answered(r), took(r.StartLagMs), took(r.DurationMs), r.EndpointID)
}
