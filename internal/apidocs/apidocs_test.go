package apidocs_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/apidocs"
	"rubato/internal/waittest"
)

// contract is a small one, so that the page has little to show.
const contract = `openapi: 3.1.1
info:
  title: A small contract
  version: "1"
paths:
  /v1/things:
    get:
      summary: List all the things
      responses:
        "200": {description: Here they are.}
`

func serve(t *testing.T) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	apidocs.Register(mux)
	mux.HandleFunc("GET /openapi.yaml", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, contract) })
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func get(t *testing.T, url string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	r.Header.Set("Accept-Encoding", "identity")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response, string(text)
}

// reference is what makes a browser ask for something.
var reference = regexp.MustCompile(`(?:src|href)="([^"]*)"`)

func TestThePageRefersToThisServerAlone(t *testing.T) {
	t.Parallel()
	s := serve(t)
	response, page := get(t, s.URL+"/docs")
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, "text/html; charset=utf-8", response.Header.Get("Content-Type"))
	require.NotRegexp(t, `<script(>| [^>]*>[^<])`, page, "no script is in the page itself")
	var scripts []string
	for _, found := range reference.FindAllStringSubmatch(page, -1) {
		if found[1] == "data:," {
			continue
		}
		require.Regexp(t, `^/[a-z]`, found[1], "of this server")
		if response, _ := get(t, s.URL+found[1]); strings.HasPrefix(response.Header.Get("Content-Type"), "text/javascript") {
			scripts = append(scripts, found[1])
		}
	}
	require.Equal(t, []string{"/docs/scalar.js", "/docs/start.js"}, scripts)
	for _, path := range append(scripts, "/docs") {
		response, _ := get(t, s.URL+path)
		policy := response.Header.Get("Content-Security-Policy")
		require.Contains(t, policy, "default-src 'none'; script-src 'self'; ", path)
		require.NotRegexp(t, `https?:|\*|unsafe-eval|script-src[^;]*unsafe`, policy)
		require.Equal(t, "nosniff", response.Header.Get("X-Content-Type-Options"))
	}
	_, license := get(t, s.URL+"/docs/license")
	require.Contains(t, license, "Copyright (c) 2023-present Scalar")
	_, start := get(t, s.URL+"/docs/start.js")
	for _, off := range []string{`withDefaultFonts: false`, `telemetry: false`, `agent: { disabled: true }`, `mcp: { disabled: true }`, `url: "/openapi.yaml"`} {
		require.Contains(t, start, off)
	}
}

func TestTheScriptIsTheSameCompressedOrNot(t *testing.T) {
	t.Parallel()
	s := serve(t)
	response, plain := get(t, s.URL+"/docs/scalar.js")
	require.Empty(t, response.Header.Get("Content-Encoding"))
	require.Contains(t, plain[:1000], "@scalar/api-reference "+apidocs.Version)
	response, packed := get(t, s.URL+"/docs/scalar.js", "Accept-Encoding", "br, gzip", "Range", "bytes=0-9")
	require.Equal(t, http.StatusOK, response.StatusCode, "there are no parts of it")
	require.Equal(t, "gzip", response.Header.Get("Content-Encoding"))
	text, err := gzip.NewReader(bytes.NewReader([]byte(packed)))
	require.NoError(t, err)
	unpacked, err := io.ReadAll(text)
	require.NoError(t, err)
	require.True(t, plain == string(unpacked))

	for _, path := range []string{"/docs", "/docs/start.js", "/docs/scalar.js"} {
		response, _ := get(t, s.URL+path, "Accept-Encoding", "gzip")
		response, body := get(t, s.URL+path, "Accept-Encoding", "gzip", "If-None-Match", response.Header.Get("Etag"))
		require.Equal(t, http.StatusNotModified, response.StatusCode, path)
		require.Empty(t, body)
	}
}

// TestABrowserShowsTheContract opens the page in a browser, if the machine has one. Its content
// policy is checked everywhere by TestThePageRefersToThisServerAlone.
func TestABrowserShowsTheContract(t *testing.T) {
	t.Parallel()
	s := serve(t)
	browser, err := exec.LookPath("chromium")
	if err != nil {
		_, page := get(t, s.URL+"/docs")
		require.Contains(t, page, `id="reference"`, "without a browser: the place that the script fills is there")
		return
	}
	var log bytes.Buffer
	command := exec.CommandContext(waittest.Context(t), browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
		"--user-data-dir="+t.TempDir(), "--enable-logging=stderr", "--virtual-time-budget=20000", "--dump-dom", s.URL+"/docs")
	command.Stderr = &log
	shown, err := command.Output()
	require.NoError(t, err, "%s", log.String())
	require.Contains(t, string(shown), "A small contract")
	require.Contains(t, string(shown), "List all the things")
	require.NotContains(t, log.String(), "Content Security Policy", "the page needs nothing that its policy forbids")
}
