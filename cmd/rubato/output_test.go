package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/app"
)

// A target's answer may contain terminal escapes, or lines that imitate the command's output.
func TestAnswersOfTargetsAreOnlyShown(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"id":"run_1","status":"succeeded","body":"a\u001b]0;t\u0007\u009b2J\u202eb\r\nid  run_2\tö"}`))
	}))
	defer server.Close()
	var out bytes.Buffer
	s := &session{stdout: &out, stderr: &out}

	code := s.run(t.Context(), strings.Fields("runs get run_1 --api-key any --server "+server.URL))

	require.Equal(t, app.ExitOK, code, out.String())
	require.Contains(t, out.String(), "a\ufffd]0;t\ufffd\ufffd2J\ufffdb\n ")
	require.NotContains(t, out.String(), "\nid  run_2")
	require.Contains(t, out.String(), "ö")
}

func TestARowIsOneLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, (&session{stdout: &out}).table([]string{"A", "B"}, [][]string{{"x\ny\tz", "\x1b[2J"}}))
	require.Equal(t, "A      B\nx y z  \ufffd[2J\n", out.String())
}

func TestTooManyLinesNameNoLineToGoOnWith(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"error":{"code":"too_many_lines","detail":"send the rest by another import"},"summary":{"nextLine":100001}}`))
	}))
	defer server.Close()
	var complaints bytes.Buffer
	s := &session{stdin: strings.NewReader("{}\n"), stdout: &bytes.Buffer{}, stderr: &complaints}

	code := s.run(t.Context(), strings.Fields("endpoints import -f - --api-key any --server "+server.URL))

	require.Equal(t, app.ExitFailure, code)
	require.Equal(t, "rubato: send the rest by another import\n", complaints.String())
}

// TestARunShowsItsInfrastructureAttempt requires the infrastructure attempt of a redelivered run,
// and its absence otherwise.
func TestARunShowsItsInfrastructureAttempt(t *testing.T) {
	t.Parallel()
	for infra, want := range map[string]bool{"0": false, "2": true} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"id":"run_1","status":"succeeded","attempt":1,"infraAttempt":` + infra + `}`))
		}))
		defer server.Close()
		var out bytes.Buffer
		s := &session{stdout: &out, stderr: &out}
		code := s.run(t.Context(), strings.Fields("runs get run_1 --api-key any --server "+server.URL))
		require.Equal(t, app.ExitOK, code, out.String())
		require.Regexp(t, `(?m)^attempt +1$`, out.String())
		require.Equal(t, want, strings.Contains(out.String(), "infra attempt"))
	}
}
