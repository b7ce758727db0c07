package devpg

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestKilledOwnerLeavesOnlyItsData(t *testing.T) {
	t.Parallel()
	cfg := seeded(t)
	o := startOwner(t, cfg, ourselves(t), nil)
	url := o.ready(t)
	put(t, url, "one")
	socket, err := os.ReadFile(filepath.Join(cfg.Dir, socketName))
	require.NoError(t, err)
	require.DirExists(t, string(socket))
	o.kill()
	requireNothingRuns(t, cfg.Dir)
	require.NoDirExists(t, string(socket))
	require.Equal(t, "one", get(t, start(t, cfg).URL()))
}

func TestStartWaitsForTheChildrenOfAKilledOwner(t *testing.T) {
	t.Parallel()
	cfg := seeded(t)
	o := startOwner(t, cfg, ourselves(t), nil)
	put(t, o.ready(t), "one")
	o.kill()
	require.Equal(t, "one", get(t, start(t, cfg).URL()), "at once, while the old server is still stopping")
}

func TestKilledOwnerOfAnEphemeralClusterLeavesNoFiles(t *testing.T) {
	t.Parallel()
	cfg := seeded(t)
	cfg.Ephemeral = true
	o := startOwner(t, cfg, ourselves(t), nil)
	o.ready(t)
	o.kill()
	eventually(t, func() bool {
		_, err := os.Stat(cfg.Dir)
		return os.IsNotExist(err)
	}, "the directory stays")
}

func TestOwnerKilledDuringInitdbLeavesNothing(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: newDir(t)}
	o := startOwner(t, cfg, ourselves(t), nil)
	eventually(t, func() bool { return sideExists(cfg.Dir) }, "initdb did not begin")
	o.kill()
	require.NoDirExists(t, filepath.Join(cfg.Dir, "data"))

	put(t, start(t, cfg).URL(), "one")
	left, err := filepath.Glob(filepath.Join(cfg.Dir, sidePrefix+"*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestOwnerKilledAtAnyMomentOfAStart kills at moments that cover a warm start, from before the
// shell runs to after readiness.
func TestOwnerKilledAtAnyMomentOfAStart(t *testing.T) {
	t.Parallel()
	cfg := seeded(t)
	c := start(t, cfg)
	put(t, c.URL(), "one")
	stop(t, c)
	for moment := 5 * time.Millisecond; moment < 300*time.Millisecond; moment += moment / 2 {
		o := startOwner(t, cfg, ourselves(t), nil)
		<-time.After(moment)
		o.kill()
		again, err := Start(t.Context(), cfg)
		require.NoError(t, err, "killed after %s", moment)
		require.Equal(t, "one", get(t, again.URL()))
		stop(t, again)
	}
	requireNothingRuns(t, cfg.Dir)
}

func TestOrphanedServerIsStoppedAfterShellIsKilled(t *testing.T) {
	t.Parallel()
	cfg := seeded(t)
	o := startOwner(t, cfg, ourselves(t), nil)
	url := o.ready(t)
	put(t, url, "one")
	orphan, socket := orphanFrom(t, o, cfg)
	require.True(t, runsOn(orphan, filepath.Join(cfg.Dir, "data")), "the orphan must live on for this test")

	c := start(t, cfg)
	pid, err := c.Pid()
	require.NoError(t, err)
	require.NotEqual(t, orphan, pid)
	require.False(t, runsOn(orphan, filepath.Join(cfg.Dir, "data")))
	require.NoDirExists(t, socket)
	require.Equal(t, "one", get(t, c.URL()))
}

func TestOrphanThatIgnoresItsSignalsIsKilled(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	deaf := exec.Command("/bin/sh", "-c", `trap '' INT QUIT; echo deaf; while :; do sleep 1; done`, "postgres", "-D", dir, "")
	out, err := deaf.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, deaf.Start())
	_, err = out.Read(make([]byte, 5))
	require.NoError(t, err)
	require.True(t, runsOn(deaf.Process.Pid, dir))
	ended := make(chan error, 1)
	go func() { ended <- deaf.Wait() }()
	require.NoError(t, stopOrphan(t.Context(), deaf.Process.Pid, dir, 50*time.Millisecond))
	require.ErrorContains(t, <-ended, "killed")
}

// orphanFrom kills an owner together with the shells between it and its server. It returns the
// server's process number and the directory of its socket.
func orphanFrom(t *testing.T, o *owner, cfg Config) (pid int, socket string) {
	t.Helper()
	f, err := readPidFile(filepath.Join(cfg.Dir, "data"))
	require.NoError(t, err)
	group, err := syscall.Getpgid(f.pid)
	require.NoError(t, err)
	var shells []int
	for _, other := range pids(t) {
		if g, err := syscall.Getpgid(other); err == nil && g == group && other != f.pid {
			shells = append(shells, other)
		}
	}
	require.Len(t, shells, 2, "the shell and its watcher")
	for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} { // none may see another die
		for _, shell := range shells {
			require.NoError(t, syscall.Kill(shell, signal))
		}
	}
	o.kill()
	note, err := os.ReadFile(filepath.Join(cfg.Dir, socketName))
	require.NoError(t, err)
	require.DirExists(t, string(note))
	return f.pid, string(note)
}

func TestStalePidFileDoesNotPreventAStart(t *testing.T) {
	t.Parallel()
	acct, err := serverAccount()
	require.NoError(t, err)
	stranger := exec.Command("sleep", "600") // of the server's account, because Postgres ignores processes of others by itself
	stranger.SysProcAttr = acct.procAttr()
	stranger.SysProcAttr.Setpgid = false
	require.NoError(t, stranger.Start())
	t.Cleanup(func() { _ = stranger.Process.Kill(); _ = stranger.Wait() })
	gone := exec.Command("true")
	require.NoError(t, gone.Run())
	for name, first := range map[string]string{
		"NumberOfAStranger":   strconv.Itoa(stranger.Process.Pid),
		"NumberOfOurselves":   strconv.Itoa(os.Getpid()),
		"NumberOfADead":       strconv.Itoa(gone.Process.Pid),
		"NumberOfAStandalone": "-" + strconv.Itoa(stranger.Process.Pid),
		"Garbage":             "\x00garbage",
		"Empty":               "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := seeded(t)
			stop(t, start(t, cfg))
			text := fmt.Sprintf("%s\n%s\n1700000000\n5432\n\n\n", first, cfg.Dir)
			writeAsServer(t, filepath.Join(cfg.Dir, "data", "postmaster.pid"), text)
			start(t, cfg)
			require.True(t, alive(stranger.Process.Pid), "a stranger must not be touched")
		})
	}
}

// writeAsServer writes a file that belongs to the account that the server runs as.
func writeAsServer(t *testing.T, path, text string) {
	t.Helper()
	acct, err := serverAccount()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	require.NoError(t, acct.own(path))
}

func TestRunsOnComparesTheCommandLine(t *testing.T) {
	t.Parallel()
	c := start(t, seeded(t))
	pid, err := c.Pid()
	require.NoError(t, err)
	data := c.home.dataDir()
	for _, tc := range []struct {
		name string
		pid  int
		dir  string
		want bool
	}{
		{name: "Server", pid: pid, dir: data, want: true},
		{name: "OtherDirectory", pid: pid, dir: filepath.Dir(data), want: false},
		{name: "BeginningOfTheDirectory", pid: pid, dir: data[:len(data)-1], want: false},
		{name: "OtherProcess", pid: os.Getpid(), dir: data, want: false},
		{name: "NoProcess", pid: 0, dir: data, want: false},
		{name: "WholeGroup", pid: -1, dir: data, want: false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, runsOn(tc.pid, tc.dir))
		})
	}
}

func TestReapReturnsTheExitStatusOfAChild(t *testing.T) {
	t.Parallel()
	acct, err := serverAccount()
	require.NoError(t, err)
	lock, err := os.CreateTemp(newDir(t), "lock")
	require.NoError(t, err)
	defer lock.Close()
	for script, want := range map[string]string{"exit 0": "", "exit 7": "exit status 7"} {
		err := runChild(t.Context(), childParams{Account: acct, Args: []string{"/bin/sh", "-c", script}, Lock: lock, Output: lock})
		if want == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, want)
		}
	}
}

func TestChildThatIgnoresItsSignalIsKilled(t *testing.T) {
	t.Parallel()
	acct, err := serverAccount()
	require.NoError(t, err)
	dir := newDir(t)
	out, err := os.Create(filepath.Join(dir, "out"))
	require.NoError(t, err)
	defer out.Close()
	deaf := `trap '' INT; echo deaf; while :; do sleep 1; done # ` + dir
	c, err := startChild(childParams{Account: acct, Args: []string{"/bin/sh", "-c", deaf}, Lock: out, Output: out})
	require.NoError(t, err)
	eventually(t, func() bool {
		info, err := out.Stat()
		return err == nil && info.Size() > 0
	}, "the child says nothing")
	c.end(t.Context(), 5*pollEvery)
	requireNothingRuns(t, dir)
}

// TestRestartWaitsForASessionThatOutlivesItsServer kills a server while a session computes: it
// notices only at its end, and until then the shared memory is in use.
func TestRestartWaitsForASessionThatOutlivesItsServer(t *testing.T) {
	t.Parallel()
	c := start(t, seeded(t))
	put(t, c.URL(), "one")
	ended := make(chan error, 1)
	go func() {
		ended <- execute(context.Background(), c.URL(), `DO $$ DECLARE until timestamptz := clock_timestamp() + '500ms'; BEGIN
			WHILE clock_timestamp() < until LOOP NULL; END LOOP; END $$`)
	}()
	eventually(t, func() bool {
		return query(t, c.URL(), "SELECT count(*)::text FROM pg_stat_activity WHERE query LIKE 'DO %' AND state = 'active'") == "1"
	}, "the session does not begin")
	pid, err := c.Pid()
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	require.NoError(t, c.Restart(t.Context()))
	require.Equal(t, "one", get(t, c.URL()))
	<-ended // with or without an error: its answer may still arrive
}

func TestChildThatCannotStartIsAnError(t *testing.T) {
	t.Parallel()
	lock, err := os.CreateTemp(newDir(t), "lock")
	require.NoError(t, err)
	defer lock.Close()
	// Only root may become another user, and root may not become one with an impossible number.
	acct := account{name: "nobody else", uid: 1<<32 - 1, gid: 1<<32 - 1, drop: true}
	_, err = startChild(childParams{Account: acct, Args: []string{"true"}, Lock: lock, Output: lock})
	require.ErrorContains(t, err, "starting true as nobody else")
}

func TestPollReturnsTheErrorOfItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, poll(ctx, func() bool { return false }), context.Canceled)
	require.NoError(t, poll(ctx, func() bool { return true }))
}
