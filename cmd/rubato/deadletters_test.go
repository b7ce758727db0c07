package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/app"
)

// TestRefusedReplaysFailTheCommand replays by filter. A refused dead letter is named, and the exit
// code is that of a failure, so that a script notices it.
func TestRefusedReplaysFailTheCommand(t *testing.T) {
	t.Parallel()
	const refused = `[{"id":"dl_1","code":"endpoint_archived","message":"the endpoint is archived"}]`
	for name, tc := range map[string]struct {
		answer, want, complaint string
		code                    int
		output                  string
	}{
		"None":      {`{"replayed":2,"refused":[],"remaining":false}`, "2 dead letters are replayed\n", "", app.ExitOK, "table"},
		"Remaining": {`{"replayed":2,"refused":[],"remaining":true,"next":"dl_2"}`, "2 dead letters are replayed; more match: repeat the command\n", "", app.ExitOK, "table"},
		"Refused": {
			`{"replayed":1,"refused":` + refused + `,"remaining":false}`,
			"dl_1 stays open: the endpoint is archived (endpoint_archived)\n1 dead letters are replayed\n",
			"1 dead letters were refused and stay open", app.ExitFailure, "table",
		},
		"RefusedOfMany": {
			`{"replayed":1,"refused":` + refused + `,"remaining":true,"next":"dl_2"}`,
			"dl_1 stays open: the endpoint is archived (endpoint_archived)\n1 dead letters are replayed; more match: repeat the command with --after dl_2\n",
			"1 dead letters were refused and stay open", app.ExitFailure, "table",
		},
		"RefusedAsJSON": {`{"replayed":1,"refused":` + refused + `,"remaining":false}`, "endpoint_archived", "1 dead letters were refused", app.ExitFailure, "json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				asked = string(body)
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, tc.answer)
			}))
			t.Cleanup(server.Close)
			var printed, complaints bytes.Buffer
			s := &session{stdout: &printed, stderr: &complaints}

			code := s.run(t.Context(), []string{"dead-letters", "replay", "--reason", "timeout", "--after", "dl_0", "-o", tc.output, "--api-key", "any", "--server", server.URL})

			require.Equal(t, tc.code, code)
			require.Contains(t, printed.String(), tc.want)
			require.Contains(t, complaints.String(), tc.complaint)
			require.JSONEq(t, `{"reasonCode":"timeout","limit":100,"newIdempotencyKey":false,"after":"dl_0"}`, asked)
		})
	}
}
