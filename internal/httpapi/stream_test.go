package httpapi_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"rubato/internal/feed"
	"rubato/internal/httpapi"
	"rubato/internal/runs"
)

// lateReadFeed is a feed with a late first read: one run started before the client connected, and
// one after.
type lateReadFeed struct{ emptyFeed }

func (lateReadFeed) Read(_ context.Context, q feed.Query) (feed.Page, error) {
	run := func(n byte, at time.Time) runs.Run {
		return runs.Run{ID: runs.NewID(now, [16]byte{n}, 1, 0), EndpointID: [16]byte{n}, ScheduledFor: now, Attempt: 1, StartedAt: at}
	}
	return feed.Page{Next: q.After, Live: []runs.Run{run(1, now), run(2, now.Add(time.Millisecond))}}, nil
}

// TestAStartBeforeTheFirstReadIsSent: a run that starts between the connection and the first read
// of the feed is sent.
func TestAStartBeforeTheFirstReadIsSent(t *testing.T) {
	t.Parallel()
	s := serviceOf(t, httpapi.Config{Feed: lateReadFeed{}}, nil)
	server := httptest.NewServer(s.server)
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/v1/events?types=run.started", nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+readKey)
	response, err := server.Client().Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if data, found := strings.CutPrefix(lines.Text(), "data: "); found {
			require.Contains(t, data, runs.NewID(now, [16]byte{2}, 1, 0).String(), "the first one was under way before")
			return
		}
	}
	require.NoError(t, lines.Err())
	require.Fail(t, "the stream ended without a word")
}

// TestOnlyStreamsOutliveTheTimeouts has a stream that lasts longer than the timeouts of the
// listener. Other responses end.
func TestOnlyStreamsOutliveTheTimeouts(t *testing.T) {
	t.Parallel()
	s := newService(t)
	const limit = 50 * time.Millisecond
	read := make(chan struct{})
	slow := func(c echo.Context) error {
		c.Response().Header().Set("Content-Type", "text/event-stream")
		_, bounded := c.Request().Context().Deadline()
		require.Equal(t, c.Path() != "/stream", bounded)
		_, _ = io.WriteString(c.Response(), "first ")
		c.Response().Flush()
		if !bounded {
			<-read
		}
		<-time.After(3 * limit)
		_, _ = io.WriteString(c.Response(), "second")
		return nil
	}
	s.server.Route("/stream", true, slow)
	s.server.Route("/other", false, slow)
	server := httptest.NewUnstartedServer(s.server)
	server.Config.WriteTimeout = limit
	server.Start()
	defer server.Close()
	get := func(path string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		require.NoError(t, err)
		response, err := server.Client().Do(r) // Accepts gzip, as Go's client does.
		require.NoError(t, err)
		t.Cleanup(func() { _ = response.Body.Close() })
		return response
	}
	stream := get("/stream")
	first := make([]byte, len("first "))
	_, err := io.ReadFull(stream.Body, first)
	require.NoError(t, err, "what is flushed is sent, not held back for compression")
	close(read)
	rest, err := io.ReadAll(stream.Body)
	require.NoError(t, err)
	require.Equal(t, "first second", string(first)+string(rest))
	_, err = io.ReadAll(get("/other").Body)
	require.Error(t, err)
}
