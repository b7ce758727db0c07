package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/app"
)

// answersAndWaits serves the beginning of an answer, says so, and writes no more.
func answersAndWaits(t *testing.T, beginning string) (url string, begun chan struct{}) {
	t.Helper()
	begun = make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, beginning)
		_ = http.NewResponseController(w).Flush()
		close(begun)
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	return server.URL, begun
}

// whenWritten is an output that is told of what is written to it.
type whenWritten func()

func (w whenWritten) Write(text []byte) (int, error) {
	w()
	return len(text), nil
}

// What was interrupted is not done, and says where it was.
func TestInterruptedIsNotDone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, args, answer, said string }{
		{"Export", "endpoints export", `{"name":"a"}` + "\n", "what was written is not all of it"},
		{"Import", "endpoints import -o json -f - --from 7", `{"line":7,"status":"created"}` + "\n", "go on with --from 8"},
		{"Change", "endpoints resume ep_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90", "{", "interrupted before http"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url, begun := answersAndWaits(t, c.answer)
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			go func() {
				<-begun
				if !strings.HasSuffix(c.answer, "\n") { // Nothing is going to be printed.
					interrupt()
				}
			}()
			var complaints bytes.Buffer
			s := &session{stdin: strings.NewReader("{}\n"), stdout: whenWritten(interrupt), stderr: &complaints}

			code := s.run(ctx, append(strings.Fields(c.args), "--server", url, "--api-key", "any"))

			require.Equal(t, app.ExitFailure, code)
			require.Contains(t, complaints.String(), c.said)
		})
	}
}

// Lines before the first one that was asked for are stored already: to send them again would make those without a key twice.
func TestImportThatBreaksOffGoesOnWhereItBegan(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusOK)
	}))
	defer server.Close()
	var complaints bytes.Buffer
	s := &session{stdin: strings.NewReader("{}\n"), stdout: io.Discard, stderr: &complaints}

	code := s.run(t.Context(), strings.Fields("endpoints import -f - --from 7 --api-key any --server "+server.URL))

	require.Equal(t, app.ExitFailure, code)
	require.Contains(t, complaints.String(), "go on with --from 7:")
}

// Followed, the redirect would make a GET of the DELETE, and the command would say that the endpoint is out of service.
func TestARedirectIsNoSuccess(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/moved" {
			_, _ = io.WriteString(w, `{"items":[]}`)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		http.Redirect(w, r, "/moved", http.StatusMovedPermanently)
	}))
	defer server.Close()
	for _, args := range []string{
		"endpoints delete ep_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90", "endpoints create --name a --url http://a.example --interval 1m",
		"endpoints export", "endpoints import -f -", "server status",
	} {
		var complaints bytes.Buffer
		s := &session{stdin: strings.NewReader("{}\n"), stdout: io.Discard, stderr: &complaints}

		code := s.run(t.Context(), append(strings.Fields(args), "--server", server.URL, "--api-key", "any"))

		require.Equal(t, app.ExitFailure, code, args)
		require.Contains(t, complaints.String(), "the server redirects to "+server.URL+"/moved, which is not followed", args)
	}
}
