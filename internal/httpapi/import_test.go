package httpapi_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/waittest"
)

func TestImportCreatesReplacesAndFailsLineByLine(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.call(t, "POST", "/v1/endpoints", `{"key":"old","name":"o","url":"https://a.example/","baselineIntervalMs":60000}`).is(http.StatusCreated)
	s.call(t, "POST", "/v1/endpoints", `{"key":"same","name":"s","url":"https://a.example/","baselineIntervalMs":60000}`).is(http.StatusCreated)

	got := s.imports(t, "", strings.Join([]string{
		`{"key":"new","name":"n","url":"https://a.example/","baselineIntervalMs":60000}`,
		`{"key":"old","name":"o2","url":"https://a.example/","baselineIntervalMs":60000,"timeoutMs":5}`,
		``,
		`{"key":"same","name":"s","url":"https://a.example/","baselineIntervalMs":60000}`,
		`{"key":"bad","name":"","url":"ftp://a.example/","baselineIntervalMs":1}`,
		`{"name":`,
		`[]`,
		`{"id":"run_1","name":"x","url":"https://a.example/","baselineIntervalMs":60000,"url2":1}`,
		strings.Repeat("x", 600<<10),
		`{"name":"keyless","url":"https://a.example/","baselineCron":"0 9 * * *"}`,
		`{"id":"","name":"x","url":"https://a.example/","baselineIntervalMs":60000}`,
		`{"name":"","url":"https://a.example/","baselineIntervalMs":60000,"headers":{"X":"{{secret \"none\"}}"}}`,
		`{"zz":1,"name":"x","url":"https://a.example/","baselineIntervalMs":60000,"headers":{"X":"{{secret \"none\"}}"}}`,
		`{"name":"x","url":"https://a.example/","baselineIntervalMs":60000,"headers":{"X":"{{secret \"none\"}}"}}`,
		`{"name":"x","url":"https://a.example/","baselineIntervalMs":60000,"headers":{"X":"{{secret \"a\u0000b\"}}","Host":"{{secret \"none\"}}"}}`,
	}, "\n"))

	status := func(r result) string {
		if r.Error == nil {
			return fmt.Sprintf("%d %s %s", r.Line, r.Status, strings.Join(r.Changes, " "))
		}
		fields := ""
		for _, f := range r.Error.Errors {
			fields += " " + f.Field + ":" + f.Code
		}
		return fmt.Sprintf("%d %s %s%s", r.Line, r.Status, r.Error.Code, fields)
	}
	var all []string
	for _, r := range got.results {
		all = append(all, status(r))
	}
	require.Equal(t, []string{
		"1 created ",
		"2 updated name timeoutMs",
		"4 unchanged ",
		"5 failed invalid_fields name:required baselineIntervalMs:out_of_range url:url_scheme",
		"6 failed invalid_json",
		"7 failed invalid_json",
		"8 failed malformed_fields url2:unknown_field id:invalid_id",
		"9 failed line_too_long",
		"10 created ",
		"11 failed malformed_fields id:invalid_id",
		"12 failed invalid_fields name:required headers.X:secret_unknown",
		"13 failed malformed_fields zz:unknown_field headers.X:secret_unknown",
		"14 failed invalid_fields headers.X:secret_unknown",
		"15 failed invalid_fields headers.Host:header_forbidden headers.X:invalid_characters",
	}, all)
	sum := got.summary.Summary
	require.Equal(t, []int{14, 2, 1, 1, 0, 10, 16}, []int{sum.Lines, sum.Created, sum.Updated, sum.Unchanged, sum.Valid, sum.Failed, sum.NextLine})
	require.True(t, sum.Complete)
	require.Nil(t, got.summary.Error)
	list := s.call(t, "GET", "/v1/endpoints?fields=name,key", "").is(http.StatusOK)
	require.Len(t, list["items"], 4)
}

// TestADryRunFollowsKeysThroughTheWholeImport moves a key between lines of different batches.
func TestADryRunFollowsKeysThroughTheWholeImport(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	line := func(key string) string {
		return `"key":"` + key + `","name":"n","url":"https://a.example/","baselineIntervalMs":60000}`
	}
	one := s.call(t, "POST", "/v1/endpoints", "{"+line("current")).is(http.StatusCreated)["id"].(string)
	two := s.call(t, "POST", "/v1/endpoints", "{"+line("next")).is(http.StatusCreated)["id"].(string)
	text := `{"id":"` + one + `",` + line("old") + "\n" + strings.Repeat("[]\n", 600) + `{"id":"` + two + `",` + line("current") + "\n"

	foreseen := s.imports(t, "?dryRun=true", text).summary.Summary
	done := s.imports(t, "", text).summary.Summary

	require.Equal(t, 2, done.Updated)
	require.Equal(t, 2, foreseen.Valid)
}

func TestImportOfAnExportChangesNothing(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	full := `{"key":"full","name":"f","url":"https://a.example/?a=1&b=<2>","method":"POST","description":"d","labels":{"team":"x"},` +
		`"headers":{"Authorization":"Bearer secret","Accept":"*/*"},"body":"{}","baselineCron":"0 9 * * *","timezone":"Europe/Berlin",` +
		`"dst":{"gap":"skip","overlap":"both"},"startAt":"2030-01-01T00:00:00.123456Z","catchUp":"all","overlap":"queue","minIntervalMs":1000,` +
		`"maxIntervalMs":86400000,"jitterMs":10,"timeoutMs":7,"maxExecutionTimeMs":9000,"maxResponseKb":1,"followRedirects":3,` +
		`"success":"2xx,404","retry":{"maxAttempts":3,"backoffMs":5,"maxBackoffMs":50},"idempotent":true,` +
		`"query":{"page":"1"},"tls":{"minVersion":"1.3","serverName":"a.example.com"},"sign":true,"responseTailKb":4,` +
		`"successRules":[{"type":"json","jsonPath":"$.ok","op":"equals","value":true},{"type":"header","header":"X-Depth","op":"less","value":99.5},{"type":"latency","maxLatencyMs":500}],` +
		`"redact":[{"jsonPath":"$.token"},{"pattern":"[0-9]{16}","replacement":"#"}],"planner":"suggest"}`
	s.imports(t, "", full+"\n"+`{"name":"keyless","url":"https://a.example/","baselineIntervalMs":60000}`)

	a := s.call(t, "GET", "/v1/endpoints:export", "", withKey(readKey))
	require.Equal(t, http.StatusOK, a.status)
	require.Equal(t, "application/x-ndjson", a.header.Get("Content-Type"))
	require.Equal(t, 2, bytes.Count(a.body, []byte("\n")))
	require.NotContains(t, string(a.body), "secret")
	for _, query := range []string{"?dryRun=true", ""} {
		got := s.imports(t, query, string(a.body))
		require.Equal(t, 2, got.summary.Summary.Unchanged, "%s: %+v", query, got.results)
	}
	require.Equal(t, 1, bytes.Count(s.call(t, "GET", "/v1/endpoints:export?label=team:x&namePrefix=f", "").body, []byte("\n")))

	// A mask stands only for a stored value.
	renamed := strings.Replace(string(a.body), `"Accept"`, `"Cookie":"***","Accept"`, 1)
	got := s.imports(t, "", renamed)
	require.Equal(t, 1, got.summary.Summary.Failed, "%+v", got.results)
	elsewhere := newStack(t)
	got = elsewhere.imports(t, "", string(a.body))
	require.Equal(t, []int{1, 1}, []int{got.summary.Summary.Created, got.summary.Summary.Failed}, "ids of elsewhere count as absent, a mask does not")
}

func TestDryRunPlansAndWritesNothing(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.imports(t, "", `{"key":"a","name":"a","url":"https://a.example/","baselineIntervalMs":60000}`)
	got := s.imports(t, "?dryRun=true", `{"key":"a","name":"b","url":"https://a.example/","baselineIntervalMs":60000}
{"key":"b","name":"b","url":"https://a.example/","baselineIntervalMs":60000}
{"key":"c","name":"b"}`)
	require.Equal(t, "valid", got.results[0].Status)
	require.Equal(t, []string{"name"}, got.results[0].Changes)
	require.NotEmpty(t, got.results[0].ID)
	require.Equal(t, "valid", got.results[1].Status)
	require.Empty(t, got.results[1].ID)
	require.Equal(t, "failed", got.results[2].Status)
	require.Equal(t, 2, got.summary.Summary.Valid)
	require.Len(t, s.call(t, "GET", "/v1/endpoints?name=a", "").is(http.StatusOK)["items"], 1)
	require.Empty(t, s.call(t, "GET", "/v1/endpoints?name=b", "").is(http.StatusOK)["items"])
}

// An import resumes with the same body from the line after the last answer.
func TestImportResumesAfterTheLastAnswer(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	var body strings.Builder
	for n := range 1200 {
		fmt.Fprintf(&body, `{"name":"n%d","url":"https://a.example/","baselineIntervalMs":60000}`+"\n", n)
	}
	reader, writer := io.Pipe()
	response, err := s.client.Do(s.request(t, "POST", "/v1/endpoints:import", io.MultiReader(strings.NewReader(body.String()), reader), asLines))
	require.NoError(t, err, "the answer begins while the body is still sent")
	first := make([]byte, 20<<10)
	n, err := io.ReadFull(response.Body, first)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.NoError(t, writer.CloseWithError(io.ErrUnexpectedEOF))
	last := bytes.LastIndexByte(first[:n], '\n')
	got := readImport(t, first[:last])
	next := got.results[len(got.results)-1].Line + 1
	require.Greater(t, next, 100)
	count := func() int {
		return bytes.Count(s.call(t, "GET", "/v1/endpoints:export", "").body, []byte("\n"))
	}
	waittest.Until(t, func() bool { return count() >= 1000 })

	rest := s.imports(t, fmt.Sprintf("?from=%d", 1001), body.String())

	require.Equal(t, 1001, rest.results[0].Line)
	require.Equal(t, 200, rest.summary.Summary.Created)
	require.Equal(t, 1201, rest.summary.Summary.NextLine)
	require.Equal(t, 1200, count())
}

// Most clients send the whole body before they read the answer.
func TestImportServesClientsThatReadLast(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	line := `{"name":"` + strings.Repeat("n", 300) + `","url":"ftp://a.example/","baselineIntervalMs":1,"timezone":"No/Where","timeoutMs":-1,` +
		`"minIntervalMs":-1,"jitterMs":-1,"catchUp":"x","followRedirects":99,"success":"x","planner":"x","maxResponseKb":-1,"method":"NO"}` + "\n"
	const lines = 5_000
	const unread = 6 << 20 // bytes of answers: more than any socket buffers
	reader, writer := io.Pipe()
	answered := make(chan imported, 1)
	sent := make(chan struct{})
	go func() {
		response, err := s.client.Do(s.request(t, "POST", "/v1/endpoints:import", reader, asLines))
		if err != nil {
			t.Error(err)
			close(answered)
			return
		}
		defer response.Body.Close()
		<-sent
		text, err := io.ReadAll(response.Body)
		if err != nil || len(text) < unread {
			t.Errorf("%d bytes were answered: %v", len(text), err)
		}
		answered <- readImport(t, text)
	}()
	for range lines {
		_, err := writer.Write([]byte(line))
		require.NoError(t, err)
	}
	require.NoError(t, writer.Close())
	close(sent)
	require.Equal(t, lines, waittest.Receive(t, answered).summary.Summary.Failed)
}

func TestImportEndsWhenTheServerStops(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	reader, writer := io.Pipe()
	answered := make(chan imported, 1)
	go func() {
		response, err := s.client.Do(s.request(t, "POST", "/v1/endpoints:import", reader, asLines))
		if err != nil {
			t.Error(err)
			close(answered)
			return
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		answered <- readImport(t, text)
	}()
	line := []byte(`{"name":"n","url":"https://a.example/","baselineIntervalMs":60000}` + "\n")
	write := func(n int) {
		for range n {
			_, _ = writer.Write(line)
		}
	}
	write(600)
	s.api.Drain()
	write(600)
	got := waittest.Receive(t, answered)
	_ = writer.Close()
	require.False(t, got.summary.Summary.Complete)
	require.Equal(t, "unavailable", got.summary.Error.Code)
	require.Equal(t, len(got.results)+1, got.summary.Summary.NextLine)
	require.Equal(t, len(got.results), got.summary.Summary.Created, "what was answered is stored")
}

// An import ends if the client closes its half of the connection, because the server cannot
// distinguish that from a disconnect. Answers sent so far are complete.
func TestImportEndsWhenTheClientClosesItsHalf(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	tx, err := s.pool(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "LOCK TABLE endpoints IN SHARE MODE") // The line cannot be stored before the connection is half closed.
	require.NoError(t, err)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	line := strings.NewReader(`{"name":"n","url":"https://a.example/","baselineIntervalMs":60000}`)
	request := s.request(t, "POST", "/v1/endpoints:import", line, asLines)
	require.NoError(t, request.Write(conn))

	require.NoError(t, conn.(*net.TCPConn).CloseWrite())

	response, err := http.ReadResponse(bufio.NewReader(conn), request)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	got := readImport(t, text)
	require.False(t, got.summary.Summary.Complete)
	require.Equal(t, "malformed", got.summary.Error.Code)
	require.Contains(t, got.summary.Error.Detail, "the client closed its side of the connection")
	require.Equal(t, 1, got.summary.Summary.NextLine)
	require.NoError(t, tx.Rollback(t.Context()))
	require.Empty(t, s.call(t, "GET", "/v1/endpoints", "").is(http.StatusOK)["items"], "the line that was not answered is not stored")
}

// An import may take hours. Lines after the end of its key are not stored.
func TestImportEndsWithTheKey(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	reader, writer := io.Pipe()
	lines := strings.Repeat(`{"name":"n","url":"https://a.example/","baselineIntervalMs":60000}`+"\n", 500)
	response, err := s.client.Do(s.request(t, "POST", "/v1/endpoints:import", io.MultiReader(strings.NewReader(lines), reader), asLines))
	require.NoError(t, err, "the answer begins while the body is still sent")
	defer response.Body.Close()
	s.endKeys()
	_, err = io.WriteString(writer, lines)
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	got := readImport(t, text)
	require.Equal(t, 500, got.summary.Summary.Created)
	require.Equal(t, 501, got.summary.Summary.NextLine)
	require.False(t, got.summary.Summary.Complete)
	require.Equal(t, "unauthorized", got.summary.Error.Code)
}

func TestImportRefusesMalformedLines(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	require.Equal(t, http.StatusUnsupportedMediaType, s.call(t, "POST", "/v1/endpoints:import", "{}").status)
	require.Equal(t, http.StatusForbidden, s.call(t, "POST", "/v1/endpoints:import", "{}", asLines, withKey(readKey)).status)
	require.Equal(t, http.StatusBadRequest, s.call(t, "POST", "/v1/endpoints:import?from=0", "{}", asLines).status)
	require.Equal(t, http.StatusBadRequest, s.call(t, "POST", "/v1/endpoints:import?dryRun=yes", "{}", asLines).status)
	require.Equal(t, http.StatusNotFound, s.call(t, "POST", "/v1/endpointsimport", "{}", asLines).status)
	empty := s.imports(t, "", "\n\n")
	require.True(t, empty.summary.Summary.Complete)
	require.Zero(t, empty.summary.Summary.Lines)
}

// TestImportResumedBeyondTheLastLineIsRefused resumes an import after its last line. An empty
// success would read as a complete import.
func TestImportResumedBeyondTheLastLineIsRefused(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	got := s.imports(t, "?from=4", "[]\n[]\n")
	require.Equal(t, "from_beyond_end", got.summary.Error.Code)
	require.Contains(t, got.summary.Error.Detail, "from is 4, and only 2 lines came")
	require.False(t, got.summary.Summary.Complete)

	got = s.imports(t, "?from=3", "[]\n[]\n") // All of it was answered, but for the summary.
	require.Nil(t, got.summary.Error)
	require.True(t, got.summary.Summary.Complete)
}

func TestLinesAboveTheLimitAreRefused(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	got := s.imports(t, "", strings.Repeat("\n", 100_000)+`{"name":"n","url":"https://a.example/","baselineIntervalMs":60000}`)
	require.Equal(t, "too_many_lines", got.summary.Error.Code)
	require.False(t, got.summary.Summary.Complete)
	require.Zero(t, got.summary.Summary.Created)
}

// BenchmarkImport imports 100,000 endpoints with keys and labels.
func BenchmarkImport(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		s := newStack(b)
		var body strings.Builder
		for n := range 100_000 {
			fmt.Fprintf(&body, `{"key":"k-%d","name":"Endpoint %d","url":"https://a.example/health/%d","baselineIntervalMs":60000,"labels":{"team":"t%d"}}`+"\n", n, n, n, n%50)
		}
		b.StartTimer()
		got := s.imports(b, "", body.String())
		require.Equal(b, 100_000, got.summary.Summary.Created)
	}
}
