package bench

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/waittest"
)

// shell starts a process that speaks as those of a bench do.
func shell(ctx context.Context, script string) (*process, error) {
	return startProcess(ctx, command{name: "shell", path: "/bin/sh", args: []string{"-c", script}, task: 1})
}

func TestAProcessEndsWithItsInput(t *testing.T) {
	t.Parallel()
	p, err := shell(t.Context(), `echo '{"target":"here"}'; cat >/dev/null`)
	require.NoError(t, err)
	require.Equal(t, "here", p.news.Target)
	require.NoError(t, p.alive())
	require.NoError(t, p.stop())
	require.ErrorContains(t, p.alive(), "ended while it was measured")
}

func TestAProcessThatEndsEarlyReturnsItsError(t *testing.T) {
	t.Parallel()
	_, err := shell(t.Context(), `echo 'no disk left' >&2`)
	require.ErrorContains(t, err, "no disk left")
}

func TestAccountsIncludeEndedProcesses(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		_, err := cpuOf(os.Getpid())
		require.ErrorIs(t, err, errNoProc)
		return
	}
	// The child of the shell works and is gone before the shell speaks.
	p, err := shell(t.Context(), `sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; echo '{}'; cat >/dev/null`)
	require.NoError(t, err)
	defer func() { require.NoError(t, p.stop()) }()
	own, err := readStat(p.pid())
	require.NoError(t, err)
	used, err := cpuOf(p.pid())
	require.NoError(t, err)
	require.Greater(t, used, own.own, "what the dead child used is missing")
	require.GreaterOrEqual(t, used, 20*time.Millisecond)
	peak, err := peakMemory(p.pid())
	require.NoError(t, err)
	require.Positive(t, peak)
}

func TestAccountsHoldLivingChildren(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		_, err := peakMemory(os.Getpid())
		require.ErrorIs(t, err, errNoProc)
		return
	}
	busy := exec.Command("/bin/sh", "-c", `sh -c 'while :; do :; done' & wait`)
	require.NoError(t, busy.Start())
	defer func() {
		stats, err := everyStat()
		require.NoError(t, err)
		for pid, s := range stats { // The child first: it would be orphaned.
			if s.parent == busy.Process.Pid {
				child, err := os.FindProcess(pid)
				require.NoError(t, err)
				require.NoError(t, child.Kill())
			}
		}
		_ = busy.Process.Kill()
		_ = busy.Wait()
	}()
	waittest.Until(t, func() bool {
		used, err := cpuOf(busy.Process.Pid)
		return err == nil && used >= 50*time.Millisecond
	})
}
