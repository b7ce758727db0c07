package web

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/a-h/templ"

	"rubato/client"
	"rubato/internal/auth"
)

const (
	liveEvery   = time.Second
	liveCheck   = 5 * time.Second  // how often a live page is asked whether its session still holds
	liveBeat    = 15 * time.Second // how often something is sent at least, so that proxies keep the connection
	liveTimeout = 10 * time.Second // write timeout of a live page
)

// liveLimits bounds live pages: each asks the database about once a second.
func liveLimits() auth.QuotaLimits {
	return auth.QuotaLimits{
		PerTenant: 50,
		All:       200,
		Reserved:  5,
	}
}

// streams reports whether a live part is asked for.
func (v *pageRequest) streams() bool {
	return strings.Contains(v.r.Header.Get("Accept"), "text/event-stream")
}

// over is the event that ends a live page after its session expired. The page then reloads and is
// redirected to the sign-in, because a stream cannot be redirected.
func (v *pageRequest) over() error {
	v.w.Header().Set("Content-Type", "text/event-stream")
	_, _ = v.w.Write([]byte("event: over\ndata:\n\n")) // A browser that went away needs no answer.
	return nil
}

// live streams a fragment of a page after every change, until the browser disconnects, the session
// ends or the server drains.
func (v *pageRequest) live(render func() (templ.Component, error)) error {
	release, ok := v.watches.Acquire(v.who.TenantID)
	if !ok {
		return &client.Problem{
			Status: http.StatusTooManyRequests,
			Title:  "Too Many Requests",
			Detail: "too many live pages are open; close one of them",
		}
	}
	defer release()
	stream := &liveStream{w: v.w, control: http.NewResponseController(v.w)}
	_ = stream.control.SetReadDeadline(time.Time{}) // Connections without deadlines need no lifting.
	v.w.Header().Set("Content-Type", "text/event-stream")
	v.w.Header().Set("X-Accel-Buffering", "no")
	defer func() { _ = stream.control.SetWriteDeadline(time.Time{}) }()
	tick := time.NewTicker(liveEvery)
	defer tick.Stop()
	for checked := time.Now(); ; {
		if time.Since(checked) >= liveCheck {
			if checked = time.Now(); v.recognize() != nil {
				return nil // The page reconnects and gets the error.
			}
		}
		body, err := render()
		if err != nil {
			v.logger.DebugContext(v.r.Context(), "a live page ended", "error", err)
			return nil // The browser comes back, here or at another server.
		}
		if err := stream.send(v.r, body); err != nil {
			return nil // The browser has gone.
		}
		select {
		case <-v.r.Context().Done():
			return nil
		case <-v.drained.Done():
			return nil
		case <-tick.C:
		}
	}
}

// liveStream is an answer that goes on.
type liveStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	last    []byte // the last sent part
	at      time.Time
}

// send writes a component if it differs from the last one, and a heartbeat after a long silence.
func (s *liveStream) send(r *http.Request, body templ.Component) error {
	var text bytes.Buffer
	if err := body.Render(r.Context(), &text); err != nil {
		return fmt.Errorf("writing a live page: %w", err)
	}
	var message bytes.Buffer
	switch {
	case !bytes.Equal(text.Bytes(), s.last):
		for line := range bytes.Lines(text.Bytes()) {
			fmt.Fprintf(&message, "data: %s\n", bytes.TrimRight(line, "\r\n"))
		}
		message.WriteByte('\n')
	case time.Since(s.at) >= liveBeat:
		message.WriteString("event: beat\ndata:\n\n") // A page that hears nothing for long takes its stream for broken.
	default:
		return nil
	}
	s.last, s.at = text.Bytes(), time.Now()
	_ = s.control.SetWriteDeadline(time.Now().Add(liveTimeout))
	if _, err := s.w.Write(message.Bytes()); err != nil {
		return err
	}
	return s.control.Flush()
}
