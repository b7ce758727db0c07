package devpg

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"rubato/internal/waittest"
)

// ownerVariable makes the test binary own a cluster instead of running tests: its value is the
// Config to start.
const ownerVariable = "DEVPG_TEST_OWNER"

func TestMain(m *testing.M) {
	if spec, ok := os.LookupEnv(ownerVariable); ok {
		os.Exit(own(spec))
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if dir, err := seed(); err == nil {
			_ = os.RemoveAll(dir)
		}
		os.Exit(code)
	}))
}

// own starts a cluster, prints its URL, and keeps it until standard input ends.
func own(spec string) int {
	var cfg Config
	_, err := fmt.Sscanf(spec, "%q %q %t", &cfg.Dir, &cfg.Seed, &cfg.Ephemeral)
	if err != nil {
		fmt.Println("error", err)
		return 2
	}
	c, err := Start(context.Background(), cfg)
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	fmt.Println(c.URL())
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := c.Stop(context.Background()); err != nil {
		return 1
	}
	return 0
}

// owner is a process of its own that owns a cluster.
type owner struct {
	cmd  *exec.Cmd
	said *bufio.Scanner
}

// ourselves returns the path of the test binary.
func ourselves(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	return path
}

// startOwner starts an owner and does not wait for its cluster. It is killed when the test ends.
func startOwner(t *testing.T, cfg Config, program string, attr *syscall.SysProcAttr) *owner {
	t.Helper()
	cmd := exec.Command(program)
	cmd.Env = []string{ownerVariable + "=" + fmt.Sprintf("%q %q %t", cfg.Dir, cfg.Seed, cfg.Ephemeral)}
	cmd.Dir, cmd.SysProcAttr = "/", attr
	_, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	o := &owner{cmd: cmd, said: bufio.NewScanner(out)}
	t.Cleanup(o.kill)
	return o
}

// ready waits for the cluster and returns its URL.
func (o *owner) ready(t *testing.T) string {
	t.Helper()
	require.True(t, o.said.Scan(), "the owner ended without a word")
	require.True(t, strings.HasPrefix(o.said.Text(), "postgres://"), o.said.Text())
	return o.said.Text()
}

// kill ends the owner as kill -9 does.
func (o *owner) kill() {
	_ = o.cmd.Process.Kill()
	_ = o.cmd.Wait()
}

// seed returns a directory that clusters are copied from, because initdb takes a second.
var seed = sync.OnceValues(func() (string, error) {
	dir, err := MkdirTemp()
	if err != nil {
		return "", err
	}
	c, err := Start(context.Background(), Config{Dir: dir})
	if err != nil {
		return "", err
	}
	return dir, c.Stop(context.Background())
})

// seeded returns the Config of a new cluster in a directory that ends with the test.
func seeded(t *testing.T) Config {
	t.Helper()
	from, err := seed()
	require.NoError(t, err)
	return Config{Dir: newDir(t), Seed: from}
}

func newDir(t *testing.T) string {
	t.Helper()
	dir, err := MkdirTemp()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// start starts a cluster that stops with the test.
func start(t *testing.T, cfg Config) *Cluster {
	t.Helper()
	c, err := Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Stop(context.Background())) })
	return c
}

func stop(t *testing.T, c *Cluster) {
	t.Helper()
	require.NoError(t, c.Stop(t.Context()))
}

// query returns the one value that a statement gives, as text.
func query(t *testing.T, url, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	var value string
	require.NoError(t, conn.QueryRow(t.Context(), sql).Scan(&value))
	return value
}

// put commits a row that get finds again.
func put(t *testing.T, url, value string) {
	t.Helper()
	require.NoError(t, execute(t.Context(), url, "CREATE TABLE IF NOT EXISTS kept (value text)"))
	require.NoError(t, execute(t.Context(), url, "INSERT INTO kept VALUES ('"+value+"')"))
}

func get(t *testing.T, url string) string {
	t.Helper()
	return query(t, url, "SELECT string_agg(value, ',' ORDER BY value) FROM kept")
}

// pids returns the processes of this machine.
func pids(t *testing.T) []int {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(t, err)
	if len(names) == 0 {
		out, err := exec.Command("ps", "-A", "-o", "pid=").Output()
		require.NoError(t, err)
		names = strings.Fields(string(out))
	}
	all := make([]int, 0, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(filepath.Base(name))
		require.NoError(t, err)
		all = append(all, pid)
	}
	return all
}

// running returns the command lines that mention dir.
func running(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	for _, pid := range pids(t) {
		if line := commandLine(pid); strings.Contains(line, dir) {
			found = append(found, strconv.Itoa(pid)+" "+line)
		}
	}
	return found
}

// eventually waits until a condition holds.
func eventually(t *testing.T, done func() bool, what string) {
	t.Helper()
	waittest.Until(t, done, what)
}

// requireNothingRuns waits until no process mentions dir.
func requireNothingRuns(t *testing.T, dir string) {
	t.Helper()
	eventually(t, func() bool { return len(running(t, dir)) == 0 }, "processes on "+dir+" stay")
}
