package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// whenWritten is an output that calls a function at each write.
type whenWritten func()

func (w whenWritten) Write(text []byte) (int, error) {
	w()
	return len(text), nil
}

// An interrupted command does not exit as done, and reports its position.
func TestInterruptedIsNotDone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, args, answer, said string }{
		{"Export", "endpoints export", `{"name":"a"}` + "\n", "the output is incomplete"},
		{"Import", "endpoints import -o json -f - --from 7", `{"line":7,"status":"created"}` + "\n", "continue with --from 8"},
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

// Lines before the first one that was asked for are stored already: to send them again would make
// those without a key twice.
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
	require.Contains(t, complaints.String(), "continue with --from 7:")
}

// startsApply serves an import of one endpoint: the plan creates it, and then the answer is the
// given one.
func startsApply(t *testing.T, answer string) (url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("dryRun") {
			answerPlan(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// answerPlan answers that one endpoint would be created.
func answerPlan(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	_, _ = io.WriteString(w, `{"line":1,"status":"valid","key":"one"}`+"\n"+`{"summary":{"lines":1,"valid":1,"complete":true,"nextLine":2}}`+"\n")
}

// The read of an answer cannot be ended, and must not keep the command.
func TestApplyCanBeInterruptedWhileItAsks(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "one.yaml")
	require.NoError(t, os.WriteFile(file, []byte("key: one"), 0o600))
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	nobody, typing := io.Pipe()
	defer typing.Close()
	var complaints bytes.Buffer
	asked := whenWritten(func() {
		if strings.Contains(complaints.String(), "Only yes goes on") {
			interrupt()
		}
	})
	s := &session{stdin: nobody, stdout: io.Discard, stderr: io.MultiWriter(&complaints, asked)}

	code := s.run(ctx, []string{"endpoints", "apply", "-f", file, "--api-key", "any", "--server", startsApply(t, "")})

	require.Equal(t, app.ExitFailure, code)
	require.Contains(t, complaints.String(), "canceled; nothing was changed: context canceled")
}

func TestApplyPrintsErrorsOfTheServer(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "one.yaml")
	require.NoError(t, os.WriteFile(file, []byte("key: one\nname: x"), 0o600))
	for answer, want := range map[string]string{
		`{"summary":{"nextLine":1},"error":{"code":"unavailable","detail":"the server stops"}}`: "nothing was deleted; apply again:\nthe server stops",
		`{"line":1,"status":"failed","error":{"code":"conflict","detail":"taken","errors":[{"field":"name","message":"is odd"}]}}` + "\n" +
			`{"summary":{"lines":1,"failed":1,"nextLine":2}}`: file + ":1 (one): taken\n  " + file + ":2: name: is odd",
		"": "apply again: the response ended early: the server sent no summary",
	} {
		var complaints bytes.Buffer
		s := &session{stdin: strings.NewReader(""), stdout: io.Discard, stderr: &complaints}

		code := s.run(t.Context(), []string{"endpoints", "apply", "--yes", "-f", file, "--api-key", "any", "--server", startsApply(t, answer)})

		require.Equal(t, app.ExitFailure, code)
		require.Contains(t, complaints.String(), want)
		require.NotContains(t, complaints.String(), "--from")
	}
}

// An answer that breaks off between two lines looks as if it had ended, and the plan as if nothing
// more were to be deleted.
func TestPruneRefusesHalfAList(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "one.yaml")
	require.NoError(t, os.WriteFile(file, []byte("key: one"), 0o600))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			answerPlan(w, r)
			return
		}
		_, _ = io.WriteString(w, `{"id":"ep_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90"}`+"\n")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	var said, complaints bytes.Buffer
	s := &session{stdin: strings.NewReader(""), stdout: &said, stderr: &complaints}

	code := s.run(t.Context(), []string{
		"endpoints", "apply", "--dry-run", "--prune", "--selector", "a=b", "-f", file, "--api-key", "any", "--server", server.URL,
	})

	require.Equal(t, app.ExitFailure, code)
	require.Contains(t, complaints.String(), "reading the endpoints of the server")
	require.Empty(t, said.String())
}

// A selector that is misread takes other endpoints out of service.
func TestASelectorMeansTheLabelThatItNames(t *testing.T) {
	t.Parallel()
	asked := make(chan []string, 3)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.Query()["label"] }))
	defer server.Close()
	for given, want := range map[string]string{"team=shop": "team:shop", "a:b=c=d": `a\:b:c=d`, `a\=b=c`: "a=b:c"} {
		s := &session{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard}
		require.Equal(t, app.ExitOK, s.run(t.Context(), []string{"endpoints", "export", "--label", given, "--api-key", "any", "--server", server.URL}))
		require.Equal(t, []string{want}, <-asked, given)
	}
}

// Followed, the redirect would make a GET of the DELETE, and the command would say that the
// endpoint is deleted.
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
		"endpoints delete --yes ep_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90", "endpoints create --name a --url http://a.example --interval 1m",
		"endpoints export", "endpoints import -f -", "server status",
	} {
		var complaints bytes.Buffer
		s := &session{stdin: strings.NewReader("{}\n"), stdout: io.Discard, stderr: &complaints}

		code := s.run(t.Context(), append(strings.Fields(args), "--server", server.URL, "--api-key", "any"))

		require.Equal(t, app.ExitFailure, code, args)
		require.Contains(t, complaints.String(), "the server redirects to "+server.URL+"/moved, which is not followed", args)
	}
}

// A range of the past is counted back from now.
func TestSoLongAgoIsAnInstant(t *testing.T) {
	t.Parallel()
	asked := make(chan url.Values, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Query()
		_, _ = io.WriteString(w, `{"items":[]}`)
	}))
	defer server.Close()
	for _, args := range []string{"runs list", "runs list --endpoint ep_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90", "changes"} {
		s := &session{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard}
		before := time.Now()
		require.Zero(t, s.run(t.Context(), append(strings.Fields(args), "--since", "2d", "--until", "1h", "--server", server.URL, "--api-key", "any")))
		query := <-asked
		for name, ago := range map[string]time.Duration{"from": 48 * time.Hour, "to": time.Hour} {
			at, err := time.Parse(time.RFC3339, query.Get(name))
			require.NoError(t, err, "%s %s", args, name)
			require.WithinRange(t, at, before.Add(-ago), time.Now().Add(-ago), "%s %s", args, name)
		}
	}
}

// An empty value of a filter flag, as from an unset variable, is refused. Without the flag the
// command would apply to every object.
func TestFlagsThatNameNothingAreRefused(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"notices window upgrade --for 1h --endpoint", "notices set shop --failures 3 --endpoint", "notices list --rule", "runs list --endpoint",
		"runs watch --endpoint", "planner sessions --endpoint", "endpoints list --key", "changes --by", "changes --object",
	} {
		var complaints bytes.Buffer
		s := &session{stdin: strings.NewReader(""), stdout: io.Discard, stderr: &complaints}
		code := s.run(t.Context(), append(append([]string{"--server", "http://127.0.0.1:1", "--api-key", "any"}, strings.Fields(args)...), ""))
		require.Equal(t, app.ExitUsage, code, args)
		require.Contains(t, complaints.String(), "names nothing", args)
	}
}

// The command line accepts the same instants as the API. The zero time is refused, because it would
// mean no end.
func TestInstantsAreReadAsTheAPIReadsThem(t *testing.T) {
	t.Parallel()
	for _, written := range []string{
		"yesterday", "2026-03-01", "2026-03-01T12:00:00", "2026-03-01T1:00:00Z", "2026-03-01T12:00:00,5Z", "2026-03-01T12:00:00+24:00", "0001-01-01T00:00:00Z", "",
	} {
		for _, args := range []string{"runs list --from", "endpoints pause shop --until", "keys create --name k --scope read --expires", "notices window w --until"} {
			var complaints bytes.Buffer
			s := &session{stdin: strings.NewReader(""), stdout: io.Discard, stderr: &complaints}
			code := s.run(t.Context(), append(append([]string{"--server", "http://127.0.0.1:1", "--api-key", "any"}, strings.Fields(args)...), written))
			require.Equal(t, app.ExitUsage, code, "%s %q", args, written)
			require.Contains(t, complaints.String(), "is not a time; use RFC 3339 with a time zone, such as 2026-03-01T12:00:00Z", "%s %q", args, written)
		}
	}
	var asked string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Query().Get("from")
		_, _ = io.WriteString(w, `{"items":[]}`)
	}))
	defer server.Close()
	s := &session{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard}
	s.run(t.Context(), []string{"runs", "list", "--from", "2026-03-01T12:00:00.25+02:00", "--server", server.URL, "--api-key", "any"})
	require.Equal(t, "2026-03-01T10:00:00.25Z", asked)
}

// An endpoint is named by its id or its key, by whatever command.
func TestNoticesAreOfEndpointsNamedByKey(t *testing.T) {
	t.Parallel()
	const id = "ep_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90"
	var asked bytes.Buffer
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.WriteString(r.Method + " " + r.URL.String() + " ")
		_, _ = io.Copy(&asked, r.Body)
		answer := `{"items":[{"id":"` + id + `"}]}`
		if !strings.Contains(r.URL.RawQuery, "key=shop") {
			answer = `{"items":[]}`
		}
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	for _, args := range []string{
		"notices set rule --failures 3 --endpoint shop", "notices window upgrade --for 1h --endpoint shop", "notices list --endpoint shop",
	} {
		asked.Reset()
		s := &session{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard}
		s.run(t.Context(), append(strings.Fields(args), "-o", "json", "--api-key", "any", "--server", server.URL))
		require.Regexp(t, `^GET /v1/endpoints\?key=shop (PUT|GET) /v1/(notice|maintenance).*`+id, asked.String())
	}
}

// A flag is sent even if its value is the zero value, so that the server can refuse it. Leaving it
// out would mean the default.
func TestCreateSendsTheGivenFields(t *testing.T) {
	t.Parallel()
	var sent []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusUnprocessableEntity)
	}))
	defer server.Close()
	s := &session{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard}

	s.run(t.Context(), []string{
		"endpoints", "create", "--server", server.URL, "--api-key", "any", "--name", "n", "--key", "", "--method", "head", "--timezone=", "--min", "0s", "--timeout", "0s",
		"--attempts", "0", "--body", "",
	})

	require.JSONEq(t, `{"name": "n", "key": "", "method": "HEAD", "timezone": "", "minIntervalMs": 0, "timeoutMs": 0, "retry": {"maxAttempts": 0}, "body": ""}`, string(sent))
}

// An import ends at an error about the key, because that is not an answer to one line.
func TestExplainEndsWhereTheKeyIsNotValid(t *testing.T) {
	t.Parallel()
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		w.Header().Set("Content-Type", "application/problem+json")
		status, code := http.StatusUnprocessableEntity, "invalid_fields"
		if asked == 2 {
			status, code = http.StatusUnauthorized, "unauthorized"
		}
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"status":%d,"code":%q,"title":"t","type":"about:blank","detail":"d"}`, status, code)
	}))
	defer server.Close()
	var out, complaints bytes.Buffer
	s := &session{stdin: strings.NewReader("{}\n{}\n{}\n"), stdout: &out, stderr: &complaints}

	code := s.run(t.Context(), []string{"explain", "--remote", "--server", server.URL, "--api-key", "any"})

	require.Equal(t, app.ExitFailure, code)
	require.Equal(t, 2, asked)
	require.Contains(t, complaints.String(), "the API key is not valid")
	require.Equal(t, 1, strings.Count(out.String(), "\n"), out.String())
	require.Contains(t, out.String(), `"line":1`)
}
