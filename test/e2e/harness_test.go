// Package e2e runs the programs as processes, on a real Postgres and against a real target, and
// checks their outside behaviour.
package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/client"
	"rubato/internal/waittest"
)

const (
	// patience bounds every wait. It is far above the need of a loaded machine with two cores, so a
	// wait that reaches it is a failure.
	patience = 60 * time.Second
	// stopTime bounds the stop of a dev server on a busy machine; the promise is 5 s. A hanging
	// target hangs for longer.
	stopTime = 20 * time.Second
	tick     = 20 * time.Millisecond
)

// binaries is the directory of the programs, which are built once.
var binaries string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "rubato-e2e-")
	if err != nil {
		panic(err)
	}
	build := exec.Command("go", "build", "-buildvcs=false", "-o", dir+"/", "./cmd/...")
	build.Dir = "../.."
	build.Stdout, build.Stderr = os.Stdout, os.Stderr
	if err := build.Run(); err != nil {
		panic(fmt.Sprintf("building the programs: %v", err))
	}
	binaries = dir
	waittest.Together(4)
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// process is a running program.
type process struct {
	cmd   *exec.Cmd
	lines chan string // of its standard output; closed at its end
	ended chan struct{}
	err   error // how it ended; valid after ended

	mu  sync.Mutex
	all bytes.Buffer // its whole output
}

// Write appends output of the program.
func (p *process) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all.Write(text)
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all.String()
}

// start starts a program with an environment that holds only env, a PATH and a home directory of
// the test's own.
func start(t *testing.T, home string, env []string, name string, args ...string) *process {
	t.Helper()
	p := &process{lines: make(chan string, 1000), ended: make(chan struct{})}
	p.cmd = exec.Command(filepath.Join(binaries, name), args...)
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}, env...)
	p.cmd.Stderr = p
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	go func() {
		defer close(p.ended)
		scanner := bufio.NewScanner(io.TeeReader(out, p))
		for scanner.Scan() {
			p.lines <- scanner.Text()
		}
		close(p.lines)
		p.err = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("%s %s ended with %v and wrote:\n%s", name, strings.Join(args, " "), p.err, p.output())
		}
	})
	return p
}

// await returns the first line of the output that begins with a text.
func (p *process) await(t *testing.T, begin string) string {
	t.Helper()
	limit := time.After(waittest.Limit(t))
	for {
		select {
		case line, open := <-p.lines:
			require.True(t, open, "the program ended before it wrote %q:\n%s", begin, p.output())
			if strings.HasPrefix(line, begin) {
				return line
			}
		case <-limit:
			require.Fail(t, "timeout", "no line %q in:\n%s", begin, p.output())
		}
	}
}

// wait returns the exit code of a program that ends by itself or after a signal. It fails after the
// limit.
func (p *process) wait(t *testing.T, limit time.Duration) int {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(limit):
		require.Fail(t, "timeout", "the program did not end within %s:\n%s", limit, p.output())
	}
	if exit, failed := errors.AsType[*exec.ExitError](p.err); failed {
		return exit.ExitCode()
	}
	require.NoError(t, p.err)
	return 0
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(s))
}

// server is a running dev server.
type server struct {
	*process
	*api
	dataDir string
	home    string
}

// startDev starts `rubato dev` on a free port and waits until it is ready.
func startDev(t *testing.T, dataDir string, args ...string) *server {
	t.Helper()
	return startDevWith(t, nil, dataDir, args...)
}

// startDevWith is startDev with settings.
func startDevWith(t *testing.T, env []string, dataDir string, args ...string) *server {
	t.Helper()
	home := t.TempDir()
	p := start(t, home, env, "rubato", append([]string{"dev", "--listen", "127.0.0.1:0", "--data-dir", dataDir}, args...)...)
	p.await(t, "ready")
	return &server{process: p, api: credentials(t, dataDir), dataDir: dataDir, home: home}
}

// interrupt stops the server in the way that Ctrl-C does.
func (s *server) interrupt(t *testing.T) {
	t.Helper()
	s.signal(t, syscall.SIGINT)
	require.Equal(t, 0, s.wait(t, stopTime), s.output())
}

// api is a server from the outside, through its client.
type api struct {
	*client.Client
	URL string
	Key string
}

func connect(t *testing.T, url, key string) *api {
	t.Helper()
	c, err := client.NewClient(url, client.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+key)
		return nil
	}))
	require.NoError(t, err)
	return &api{Client: c, URL: url, Key: key}
}

// credentials connects to the server of a data directory.
func credentials(t *testing.T, dataDir string) *api {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dataDir, "credentials.json"))
	require.NoError(t, err)
	var c struct{ URL, Key string }
	require.NoError(t, json.Unmarshal(text, &c))
	return connect(t, c.URL, c.Key)
}

// read decodes a success; anything else fails the test.
func read[T any](t *testing.T) func(res *http.Response, err error) T {
	t.Helper()
	return func(res *http.Response, err error) (v T) {
		t.Helper()
		require.NoError(t, err)
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.Less(t, res.StatusCode, 300, "%s", text)
		require.NoError(t, json.Unmarshal(text, &v), "%s", text)
		return v
	}
}

// register registers an endpoint that calls a URL.
func (a *api) register(t *testing.T, spec client.EndpointSpec) client.Endpoint {
	t.Helper()
	return read[client.Endpoint](t)(a.CreateEndpoint(t.Context(), spec))
}

func (a *api) endpoint(t *testing.T, id string) client.Endpoint {
	t.Helper()
	return read[client.Endpoint](t)(a.GetEndpoint(t.Context(), id))
}

// finished returns the recorded runs of an endpoint that have an end, the newest first.
func (a *api) finished(t *testing.T, id string) []client.Run {
	t.Helper()
	var over []client.Run
	for _, r := range read[client.RunList](t)(a.ListEndpointRuns(t.Context(), id, &client.ListEndpointRunsParams{Limit: new(client.Limit(500))})).Items {
		if r.FinishedAt != nil {
			over = append(over, r)
		}
	}
	return over
}

// awaitRuns waits until an endpoint has n finished runs and returns them.
func (a *api) awaitRuns(t *testing.T, id string, n int) []client.Run {
	t.Helper()
	var runs []client.Run
	eventually(t, fmt.Sprintf("%d finished runs", n), func() bool {
		runs = a.finished(t, id)
		return len(runs) >= n
	})
	return runs
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	waittest.Until(t, holds, "for %s", what)
}

// target is a service that Rubato calls. It counts the requests to each path.
type target struct {
	*httptest.Server

	mu   sync.Mutex
	seen map[string][]http.Header
}

// newTarget starts a target. It answers requests to /hang only after release, which the end of the
// test calls too.
func newTarget(t *testing.T) (tgt *target, release func()) {
	t.Helper()
	released := make(chan struct{})
	release = sync.OnceFunc(func() { close(released) })
	tgt = &target{seen: map[string][]http.Header{}}
	tgt.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tgt.mu.Lock()
		tgt.seen[r.URL.Path] = append(tgt.seen[r.URL.Path], r.Header.Clone())
		tgt.mu.Unlock()
		if r.URL.Path == "/hang" {
			<-released
		}
		_, _ = io.WriteString(w, "hello from "+r.URL.Path)
	}))
	t.Cleanup(tgt.Close)
	t.Cleanup(release)
	return tgt, release
}

func (tgt *target) requests(path string) []http.Header {
	tgt.mu.Lock()
	defer tgt.mu.Unlock()
	return append([]http.Header(nil), tgt.seen[path]...)
}

// freeAddress returns an address without a listener, below the range of ephemeral ports, because
// the system may hand out an ephemeral port again before the program listens on it.
func freeAddress(t *testing.T) string {
	t.Helper()
	for {
		at := fmt.Sprintf("127.0.0.1:%d", 15_000+rand.IntN(15_000))
		if l, err := net.Listen("tcp", at); err == nil {
			require.NoError(t, l.Close())
			return at
		}
	}
}
