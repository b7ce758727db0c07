package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/app"
)

// TestPublicRoutesNeedNoKey asks a server for its readiness, as monitoring does. The client
// sends no key.
func TestPublicRoutesNeedNoKey(t *testing.T) {
	t.Parallel()
	const notReady = `{"type":"about:blank","title":"Service Unavailable","status":503,"code":"not_ready","detail":"the server is not ready; try again",` +
		`"errors":[{"field":"database","code":"not_ready","message":"the database does not answer, since 2026-01-01T00:00:00Z"}]}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/readyz" {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, notReady)
			return
		}
		_, _ = io.WriteString(w, `{"status":"ok"}`)
	}))
	t.Cleanup(server.Close)
	for name, tc := range map[string]struct {
		args    string
		environ []string
		code    int
		want    string
	}{
		"Status":         {args: "server status", code: app.ExitFailure, want: server.URL + " is live and not ready\ndatabase: the database does not answer, since 2026-01-01T00:00:00Z\n"},
		"StatusWithAKey": {args: "server status", environ: []string{"RUBATO_API_KEY=some-key"}, code: app.ExitFailure, want: "is live and not ready\n"},
		"JSON":           {args: "server status -o json", code: app.ExitFailure, want: `"check": "database"`},
		"Contract":       {args: "server contract", want: `{"status":"ok"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, complaints bytes.Buffer
			command := &session{
				stdin: strings.NewReader(""), stdout: &out, stderr: &complaints,
				environ: append([]string{"XDG_DATA_HOME=" + t.TempDir(), "RUBATO_URL=" + server.URL}, tc.environ...),
			}
			require.Equal(t, tc.code, command.run(t.Context(), strings.Fields(tc.args)), "%s", &complaints)
			require.Contains(t, out.String(), tc.want)
		})
	}
}

// A password in the address of the server would not be sent beside a key, and would come back in
// every message that names the server.
func TestTheAddressOfTheServerHoldsNoPassword(t *testing.T) {
	t.Parallel()
	for _, server := range []string{"http://u:hunter2@127.0.0.1:1", "http://u:hunter2@127.0.0.1:zz"} {
		var out, complaints bytes.Buffer
		command := &session{
			stdin: strings.NewReader(""), stdout: &out, stderr: &complaints,
			environ: []string{"XDG_DATA_HOME=" + t.TempDir(), "RUBATO_API_KEY=key-of-the-test"},
		}
		require.Equal(t, app.ExitUsage, command.run(t.Context(), []string{"stats", "--server", server}))
		require.Contains(t, complaints.String(), "the server must ")
		require.NotContains(t, out.String()+complaints.String(), "hunter2")
	}
}
