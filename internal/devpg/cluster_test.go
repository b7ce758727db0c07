package devpg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func TestClusterKeepsDataAcrossAStop(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: filepath.Join(newDir(t), "not", "yet", "there"), Durable: true, Database: `odd "name`}
	c := start(t, cfg)
	put(t, c.URL(), "one")
	require.Equal(t, cfg.Database, query(t, c.URL(), "SELECT current_database()"))
	require.Equal(t, "UTF8", query(t, c.URL(), "SHOW server_encoding"))
	require.Equal(t, "UTC", query(t, c.URL(), "SHOW timezone"))
	stop(t, c)
	requireNothingRuns(t, cfg.Dir)
	require.NoDirExists(t, c.socket)

	again := start(t, cfg)
	require.Equal(t, "one", get(t, again.URL()))
	require.Equal(t, cfg.Dir, again.Dir())
}

func TestServerListensOnASocketOfItsOwnerOnly(t *testing.T) {
	t.Parallel()
	c := start(t, seeded(t))
	require.Empty(t, query(t, c.URL(), "SHOW listen_addresses"))
	info, err := os.Stat(c.socket)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o700), info.Mode().Perm())
	cfg, err := pgx.ParseConfig(c.URLFor("postgres"))
	require.NoError(t, err)
	require.Equal(t, c.socket, cfg.Host)
	require.Equal(t, "postgres", cfg.Database)
}

func TestDurabilityAndSettingsReachTheServer(t *testing.T) {
	t.Parallel()
	durable := seeded(t)
	durable.Durable, durable.Settings = true, map[string]string{"work_mem": "5MB", "max_connections": "20"}
	for _, tc := range []struct {
		name string
		cfg  Config
		want string
	}{
		{name: "Durable", cfg: durable, want: "on on on 5MB 20"},
		{name: "NotDurable", cfg: seeded(t), want: "off off on 4MB 200"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := start(t, tc.cfg)
			got := query(t, c.URL(), `SELECT concat_ws(' ', current_setting('fsync'), current_setting('full_page_writes'),
				current_setting('synchronous_commit'), current_setting('work_mem'), current_setting('max_connections'))`)
			require.Equal(t, tc.want, got)
		})
	}
}

func TestSecondStartIsRefusedAndNamesTheHolder(t *testing.T) {
	t.Parallel()
	cfg := seeded(t)
	c := start(t, cfg)
	_, err := Start(t.Context(), cfg)
	require.ErrorIs(t, err, ErrInUse)
	require.ErrorContains(t, err, "by process "+strconv.Itoa(os.Getpid()))
	require.Equal(t, "1", query(t, c.URL(), "SELECT '1'"), "the refused start must not touch the first")

	other := seeded(t)
	o := startOwner(t, other, ourselves(t), nil)
	o.ready(t)
	_, err = Start(t.Context(), other)
	require.ErrorIs(t, err, ErrInUse)
	require.ErrorContains(t, err, "by process "+strconv.Itoa(o.cmd.Process.Pid))
}

func TestStopIsIdempotentAndConcurrent(t *testing.T) {
	t.Parallel()
	cfg := seeded(t)
	c := start(t, cfg)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if err := c.Stop(t.Context()); err != nil {
				t.Error(err)
			}
			if left := running(t, cfg.Dir); len(left) > 0 {
				t.Error("Stop returned while these run:", left)
			}
		})
	}
	group.Wait()
	require.Error(t, c.Restart(t.Context()))
}

func TestStopPastItsDeadlineKeepsCommittedData(t *testing.T) {
	t.Parallel()
	cfg := seeded(t)
	c := start(t, cfg)
	put(t, c.URL(), "one")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, c.Stop(ended), context.Canceled)
	require.NoDirExists(t, c.socket)
	require.Equal(t, "one", get(t, start(t, cfg).URL()))
}

func TestRestartKeepsURLAndData(t *testing.T) {
	t.Parallel()
	c := start(t, seeded(t))
	url := c.URL()
	put(t, url, "one")
	require.NoError(t, c.Restart(t.Context()))
	require.Equal(t, "one", get(t, url))
}

func TestRestartStartsAKilledServer(t *testing.T) {
	t.Parallel()
	for _, ephemeral := range []bool{false, true} {
		t.Run(fmt.Sprintf("Ephemeral=%t", ephemeral), func(t *testing.T) {
			t.Parallel()
			cfg := seeded(t)
			cfg.Ephemeral = ephemeral
			c := start(t, cfg)
			put(t, c.URL(), "one")
			pid, err := c.Pid()
			require.NoError(t, err)
			require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
			require.NoError(t, c.Restart(t.Context()))
			require.Equal(t, "one", get(t, c.URL()))
		})
	}
}

func TestEphemeralClusterIsRemovedByStop(t *testing.T) {
	t.Parallel()
	cfg := seeded(t)
	cfg.Ephemeral = true
	c := start(t, cfg)
	require.NoError(t, c.Restart(t.Context()))
	require.DirExists(t, cfg.Dir)
	stop(t, c)
	require.NoDirExists(t, cfg.Dir)
}

func TestStartRefusesDurableAndEphemeral(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(newDir(t), "sub")
	_, err := Start(t.Context(), Config{Dir: dir, Durable: true, Ephemeral: true})
	require.ErrorContains(t, err, "both durable and ephemeral")
	require.NoDirExists(t, dir)
}

func TestFailedStartShowsTheEndOfTheLogAndFreesTheDirectory(t *testing.T) {
	t.Parallel()
	cfg := seeded(t)
	cfg.Settings = map[string]string{"no_such_setting": "1"}
	_, err := Start(t.Context(), cfg)
	require.ErrorContains(t, err, `unrecognized configuration parameter "no_such_setting"`)
	requireNothingRuns(t, cfg.Dir)
	cfg.Settings = nil
	require.NoError(t, start(t, cfg).Restart(t.Context()))
}

func TestFailedInitdbShowsTheEndOfTheLog(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: newDir(t), Seed: newDir(t)}
	_, err := Start(t.Context(), cfg)
	require.ErrorContains(t, err, "making the data directory")
	require.ErrorContains(t, err, "cp: ")
	sides, err := filepath.Glob(filepath.Join(cfg.Dir, sidePrefix+"*"))
	require.NoError(t, err)
	require.Empty(t, sides)
}

func TestStartEndsWithItsContext(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: newDir(t)}
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() {
		_, err := Start(ctx, cfg)
		failed <- err
	}()
	eventually(t, func() bool { return sideExists(cfg.Dir) }, "initdb did not begin")
	cancel()
	require.ErrorIs(t, <-failed, context.Canceled)
	requireNothingRuns(t, cfg.Dir)
	require.NoDirExists(t, filepath.Join(cfg.Dir, "data"))
}

func TestLogOfThePreviousStartIsKept(t *testing.T) {
	t.Parallel()
	c := start(t, seeded(t))
	require.Error(t, execute(t.Context(), c.URL(), "SELECT first_mistake"))
	require.NoError(t, c.Restart(t.Context()))
	require.Error(t, execute(t.Context(), c.URL(), "SELECT second_mistake"))
	now, err := os.ReadFile(c.home.logFile())
	require.NoError(t, err)
	before, err := os.ReadFile(c.home.logFile() + ".1")
	require.NoError(t, err)
	require.Contains(t, string(now), "second_mistake")
	require.NotContains(t, string(now), "first_mistake")
	require.Contains(t, string(before), "first_mistake")
}

func TestDirectoryMayHaveALongPathWithSpecialCharacters(t *testing.T) {
	t.Parallel()
	cfg := seeded(t)
	cfg.Dir = filepath.Join(cfg.Dir, strings.Repeat("long ", 30), `it's "odd" $HOME`, strings.Repeat("x", 100))
	c := start(t, cfg)
	require.LessOrEqual(t, len(c.socket+socketFile), maxSocketPath)
	put(t, c.URL(), "one")
	require.NoError(t, c.Restart(t.Context()))
	require.Equal(t, "one", get(t, c.URL()))
}

func TestDirectoryMayBeRelative(t *testing.T) {
	t.Parallel()
	here, err := os.Getwd()
	require.NoError(t, err)
	cfg := seeded(t)
	want := cfg.Dir
	cfg.Dir, err = filepath.Rel(here, cfg.Dir)
	require.NoError(t, err)
	require.Equal(t, want, start(t, cfg).Dir())
}

// TestIncompleteDataOfAKilledProcessIsRemoved has a name that would be a pattern.
func TestIncompleteDataOfAKilledProcessIsRemoved(t *testing.T) {
	t.Parallel()
	cfg := seeded(t)
	acct, err := serverAccount()
	require.NoError(t, err)
	cfg.Dir = filepath.Join(cfg.Dir, "a [1]*")
	require.NoError(t, acct.mkdirAll(cfg.Dir))
	left := filepath.Join(cfg.Dir, sidePrefix+"1")
	require.NoError(t, os.MkdirAll(filepath.Join(left, "base"), 0o700))
	start(t, cfg)
	require.NoDirExists(t, left)
}

// TestSuperviseRestartsACrashedServer kills it twice.
func TestSuperviseRestartsACrashedServer(t *testing.T) {
	t.Parallel()
	c := start(t, seeded(t))
	put(t, c.URL(), "one")
	ctx, cancel := context.WithCancel(t.Context())
	supervised := make(chan struct{})
	go func() { defer close(supervised); c.Supervise(ctx) }()
	for range 2 {
		pid, err := c.Pid()
		require.NoError(t, err)
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		eventually(t, func() bool {
			now, err := c.Pid()
			return err == nil && now != pid && execute(t.Context(), c.URL(), "SELECT 1") == nil
		}, "nobody brings it back")
		require.Equal(t, "one", get(t, c.URL()))
	}
	cancel()
	<-supervised
	stop(t, c)
}

// TestSuperviseRetriesAFailedRestart takes its data away for as long as it fails.
func TestSuperviseRetriesAFailedRestart(t *testing.T) {
	t.Parallel()
	cfg := seeded(t)
	var log syncBuffer
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	c := start(t, cfg)
	put(t, c.URL(), "one")
	pid, err := c.Pid()
	require.NoError(t, err)
	control, hidden := filepath.Join(c.home.dataDir(), "global", "pg_control"), filepath.Join(c.home.dataDir(), "global", "pg_control.hidden")
	require.NoError(t, os.Rename(control, hidden))
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	ctx, cancel := context.WithCancel(t.Context())
	supervised := make(chan struct{})
	go func() { defer close(supervised); c.Supervise(ctx) }()
	eventually(t, func() bool { return strings.Contains(log.String(), "restarting the private Postgres failed") }, "nobody tells that it failed")
	require.NoError(t, os.Rename(hidden, control))
	eventually(t, func() bool { return execute(t.Context(), c.URL(), "SELECT 1") == nil }, "nobody tries again")
	require.Equal(t, "one", get(t, c.URL()))
	cancel()
	<-supervised
	stop(t, c)
}

// syncBuffer is a buffer for a writer and a reader at once.
type syncBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// sideExists reports whether a data directory is being made in dir.
func sideExists(dir string) bool {
	found, err := filepath.Glob(filepath.Join(dir, sidePrefix+"*", "PG_VERSION"))
	return err == nil && len(found) > 0
}

func BenchmarkColdStart(b *testing.B) {
	for b.Loop() {
		benchmarkStart(b, "")
	}
}

func BenchmarkWarmStart(b *testing.B) {
	from, err := seed()
	require.NoError(b, err)
	for b.Loop() {
		benchmarkStart(b, from)
	}
}

// benchmarkStart measures a start; with from it is that of a directory that exists.
func benchmarkStart(b *testing.B, from string) {
	b.Helper()
	dir := from
	if dir == "" {
		var err error
		dir, err = MkdirTemp()
		require.NoError(b, err)
		defer os.RemoveAll(dir)
	}
	c, err := Start(b.Context(), Config{Dir: dir, Durable: true})
	b.StopTimer()
	require.NoError(b, errors.Join(err, c.Stop(b.Context())))
	b.StartTimer()
}
