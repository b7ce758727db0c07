package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/app"
)

// A stream that is cut goes on after the last message that was read whole.
func TestWatchGoesOnAfterACut(t *testing.T) {
	t.Parallel()
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Get("Last-Event-ID"))
		w.Header().Set("Content-Type", "text/event-stream")
		n := len(asked)
		_, _ = fmt.Fprintf(w, "retry: 1000\nid: start%d\n\n: a comment\n\n", n)
		_, _ = fmt.Fprintf(w, "id: e%d\nevent: run.finished\ndata: {\"type\":\"run.finished\",\"run\":{\"id\":\"run_%d\"}}\n\n", n, n)
		_, _ = fmt.Fprint(w, "id: lost\ndata: {\"ty") // Cut within a message.
	}))
	defer server.Close()
	r, err := (&remote{url: server.URL, key: "any"}).open()
	require.NoError(t, err)
	var printed []string
	w := &watcher{remote: r, left: 2, show: func(f finished) error {
		printed = append(printed, f.run.ID)
		return nil
	}}

	require.NoError(t, w.run(t.Context()))

	require.Equal(t, []string{"run_1", "run_2"}, printed)
	require.Equal(t, []string{"", "e1"}, asked)
}

// Another connection does not mend the output: a watch that went on would stay silent for ever.
func TestWatchEndsWhenItCannotPrint(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) > 2 {
			w.WriteHeader(http.StatusNotFound) // Ends a watch that does go on.
			return
		}
		_, _ = fmt.Fprint(w, "id: e1\n\nid: e2\nevent: run.finished\ndata: {\"type\":\"run.finished\",\"run\":{\"id\":\"run_1\"}}\n\n")
	}))
	defer server.Close()
	r, err := (&remote{url: server.URL, key: "any"}).open()
	require.NoError(t, err)
	full := errors.New("no space left")

	err = (&watcher{remote: r, show: func(finished) error { return full }}).run(t.Context())

	require.ErrorIs(t, err, full)
	require.EqualValues(t, 1, asked.Load())
}

func TestWatchReportsALostServer(t *testing.T) {
	t.Parallel()
	const nobody = "http://127.0.0.1:1" // A port that was free a moment ago may be another test's by now.
	r, err := (&remote{url: nobody, key: "any"}).open()
	require.NoError(t, err)

	err = (&watcher{remote: r}).run(t.Context())

	require.ErrorContains(t, err, "connection refused by "+nobody)
}

// A script that counts to nothing would wait for ever.
func TestWatchOfNoRunsIsRefused(t *testing.T) {
	t.Parallel()
	for _, count := range []string{"0", "-1"} {
		var complaints bytes.Buffer
		s := &session{stdin: strings.NewReader(""), stdout: io.Discard, stderr: &complaints}
		code := s.run(t.Context(), []string{"runs", "watch", "--count=" + count, "--server", "http://127.0.0.1:1", "--api-key", "any"})
		require.Equal(t, app.ExitUsage, code)
		require.Contains(t, complaints.String(), "--count: must be at least 1, not "+count)
	}
}
