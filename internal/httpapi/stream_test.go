package httpapi_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"
)

// Streams go on for as long as there is something to tell, bit by bit and past the listener's timeouts. Other answers do not.
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
		<-time.After(3 * limit) // What is tested is that this much time passes.
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
