package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/feed"
	"rubato/internal/httpapi/api"
	"rubato/internal/runs"
)

const (
	eventMedia = "text/event-stream"

	eventPage      = 500
	eventPoll      = 500 * time.Millisecond
	eventHeartbeat = 15 * time.Second
)

// WatchEvents streams events until the client disconnects or the server shuts down.
func (s *Server) WatchEvents(ctx context.Context, r api.WatchEventsRequestObject) (api.WatchEventsResponseObject, error) {
	w := &watch{
		server:    s,
		announced: map[runs.ID]bool{},
		q:         feed.Query{TenantID: principalOf(ctx).TenantID, Limit: eventPage},
	}
	if err := w.filter(ctx, r.Params); err != nil {
		return nil, err
	}
	if err := w.resume(ctx, r.Params.LastEventID); err != nil {
		return nil, err
	}
	release, err := s.watches.acquire(principalOf(ctx).TenantID)
	if err != nil {
		return nil, err
	}
	return watchAnswer(func(answer http.ResponseWriter) error {
		defer release()
		return w.run(ctx, answer)
	}), nil
}

// watchAnswer writes events.
type watchAnswer func(w http.ResponseWriter) error

// VisitWatchEventsResponse writes events.
func (a watchAnswer) VisitWatchEventsResponse(w http.ResponseWriter) error { return a(w) }

// watch is the stream of one client. Only the goroutine of its request uses it.
type watch struct {
	server    *Server
	q         feed.Query
	resumed   bool
	began     time.Time        // when the client connected, by the database's clock
	polled    bool             // the first page was sent
	announced map[runs.ID]bool // runs in progress that the client knows of; those from before the connection too
	cursor    feed.Cursor      // position after the last event that was sent or filtered out
	before    feed.Cursor      // mark from which the client resumed
	written   time.Time        // when something was last sent
}

// filter reads the client's event filter.
func (w *watch) filter(ctx context.Context, p api.WatchEventsParams) error {
	if p.Types != nil {
		types, err := typesOf(*p.Types)
		if err != nil {
			return err
		}
		w.q.Types = types
	}
	id, err := endpointNamed(p.EndpointID)
	if err != nil || p.EndpointID == nil {
		return err
	}
	w.q.EndpointID = id
	_, _, err = w.server.endpoints.Get(ctx, actorOf(ctx), id)
	return err
}

// typesOf reads the types of events that a client asks for.
func typesOf(given string) ([]feed.Type, error) {
	var types []feed.Type
	for name := range strings.SplitSeq(given, ",") {
		t := feed.Type(strings.TrimSpace(name))
		if !slices.Contains(feed.Types(), t) {
			return nil, badParameter("types", "invalid_value", fmt.Sprintf("%q is no type; choose among %s", join("", name), typeNames()))
		}
		types = append(types, t)
	}
	return types, nil
}

func typeNames() string {
	names := make([]string, 0, len(feed.Types()))
	for _, t := range feed.Types() {
		names = append(names, string(t))
	}
	return strings.Join(names, ", ")
}

// resume sets the position to begin at: the given event, or the end of the stream without one. The
// error is an [errs.Malformed] if the event is older than [feed.Window] or is not of this server.
func (w *watch) resume(ctx context.Context, last *string) error {
	head, now, err := w.server.feed.Head(ctx)
	if err != nil {
		return err
	}
	w.q.After, w.began = head, now
	if last == nil || *last == "" {
		return nil
	}
	cursor, err := feed.ParseCursor(*last)
	position := cursor.Position
	switch {
	case err != nil:
		return err
	case position.At.Before(now.Add(-feed.Window)):
		return errs.New(errs.Malformed, "event_id_too_old", "events are kept for 24 hours; connect again without Last-Event-ID, and read what you missed from the lists")
	}
	probe := w.q
	probe.After, probe.Limit = position, 1
	if _, err := w.server.feed.Read(ctx, probe); err != nil { // An invalid position is refused before the stream begins.
		return err
	}
	w.q.After, w.resumed, w.cursor, w.before = position, true, cursor, cursor
	return nil
}

func (w *watch) run(ctx context.Context, answer http.ResponseWriter) error {
	ctx, cancel := w.server.whileServing(ctx)
	defer cancel()
	stream := openStream(answer, eventMedia)
	defer stream.close()
	// The stream begins with a mark, so that a client that loses the connection before the first
	// event can resume too.
	w.cursor.Position = w.q.After
	if err := w.send(stream, fmt.Appendf(nil, "retry: 1000\nid: %s\n\n", w.cursor)); err != nil {
		return nil // The client has gone.
	}
	poll := time.NewTicker(eventPoll)
	defer poll.Stop()
	for {
		more, err := w.poll(ctx, stream)
		if err != nil {
			w.server.logger.DebugContext(ctx, "events ended", "error", err)
			return nil // The client resumes where it was, here or at another server.
		}
		if more {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-poll.C:
		}
	}
}

// poll sends the events since the last query, and reports whether there are more. It fails once the
// client's key is revoked or expired.
func (w *watch) poll(ctx context.Context, stream *stream) (more bool, err error) {
	if err := w.server.stillIn(ctx); err != nil {
		return false, err
	}
	page, err := w.server.feed.Read(ctx, w.q)
	if err != nil {
		return false, err
	}
	text, err := w.text(page)
	if err != nil {
		return false, err
	}
	w.q.After = page.Next
	if text == nil && time.Since(w.written) >= eventHeartbeat {
		text = fmt.Appendf(nil, ": nothing new\nid: %s\n\n", w.cursor)
	}
	if text == nil {
		return page.More, nil
	}
	return page.More, w.send(stream, text)
}

func (w *watch) send(stream *stream, text []byte) error {
	w.written = time.Now()
	return stream.write(text)
}

// text returns the messages for a page; nil for none.
func (w *watch) text(page feed.Page) ([]byte, error) {
	var text bytes.Buffer
	for _, e := range page.Events {
		if e.Type == feed.RunFinished {
			if !w.knows(*e.Run) && w.q.Asks(feed.RunStarted) {
				if err := w.sendStart(&text, *e.Run); err != nil {
					return nil, err
				}
			}
			delete(w.announced, e.Run.ID)
		}
		w.cursor.Position = e.Position
		if !w.q.Asks(e.Type) {
			continue
		}
		if err := w.write(&text, e); err != nil {
			return nil, err
		}
	}
	w.cursor.Position = page.Next
	if err := w.announce(&text, page.Live); err != nil {
		return nil, err
	}
	return text.Bytes(), nil
}

// knows reports whether the client has received the start of a run, in this stream or before it
// resumed.
func (w *watch) knows(run runs.Run) bool {
	return w.announced[run.ID] || w.resumed && w.before.Includes(run)
}

// announce adds RunStarted events for the runs in progress that the client does not know of,
// ordered by start time. Runs from before a new client connected are skipped. A client that resumes
// gets them, because they may have started while it was away.
func (w *watch) announce(text *bytes.Buffer, live []runs.Run) error {
	slices.SortFunc(live, func(a, b runs.Run) int {
		return cmp.Or(a.StartedAt.Compare(b.StartedAt), slices.Compare(a.ID[:], b.ID[:]))
	})
	for _, run := range live {
		known := w.knows(run) || !w.polled && !w.resumed && !run.StartedAt.After(w.began)
		w.announced[run.ID] = true
		if known {
			continue
		}
		if err := w.sendStart(text, run); err != nil {
			return err
		}
	}
	w.polled = true
	return nil
}

// sendStart adds the RunStarted event of a run. It has no position of its own, so that a client
// that resumes after it continues at the last position of the stream.
func (w *watch) sendStart(text *bytes.Buffer, run runs.Run) error {
	w.cursor = w.cursor.WithStart(run)
	run.Outcome, run.Decision, run.FinishedAt = runs.Outcome{Status: runs.Running}, runs.Decision{}, time.Time{}
	return w.write(text, feed.Event{
		Type:       feed.RunStarted,
		At:         run.StartedAt,
		EndpointID: run.EndpointID,
		Run:        &run,
	})
}

// write appends one message of the stream. Its id is the mark after this event.
func (w *watch) write(text *bytes.Buffer, e feed.Event) error {
	answer, err := feedEventAnswer(e)
	if err != nil {
		return err
	}
	data, err := json.Marshal(answer)
	if err != nil {
		return fmt.Errorf("writing an event: %w", err)
	}
	fmt.Fprintf(text, "id: %s\nevent: %s\ndata: %s\n\n", w.cursor, e.Type, data) // JSON has no line ends of its own.
	return nil
}

// feedEventAnswer returns an event in the form of the API.
func feedEventAnswer(e feed.Event) (api.Event, error) {
	out := api.Event{
		Type:       api.EventType(e.Type),
		At:         e.At.UTC(),
		EndpointID: endpoints.ID(e.EndpointID).String(),
	}
	if e.Run != nil {
		run, err := runAnswer(*e.Run)
		if err != nil {
			return out, err
		}
		out.Run = &run
	}
	if c := e.Change; c != nil {
		out.Change = &api.EndpointChange{
			Version:     c.Version,
			Action:      optional(c.Action),
			PausedUntil: c.PausedUntil,
			Reason:      optional(c.Reason),
		}
	}
	if h := e.Hint; h != nil {
		out.Hint = &api.HintChange{
			Kind:      h.Kind,
			RunAt:     h.RunAt,
			ExpiresAt: &h.ExpiresAt,
			Author:    optional(h.Author),
			Reason:    optional(h.Reason),
		}
		if h.IntervalMs != 0 {
			out.Hint.IntervalMs = &h.IntervalMs
		}
	}
	return out, nil
}
