package failpoint_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/waittest"
)

// build builds the program that hits a point, with or without failpoints.
func build(t *testing.T, tags string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hitter")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-tags", tags, "-o", path, "./testdata/hitter").CombinedOutput()
	require.NoError(t, err, string(out))
	return path
}

type failpointProcess struct {
	cmd    *exec.Cmd
	out    bytes.Buffer
	report string
}

func start(t *testing.T, program, armed string) *failpointProcess {
	t.Helper()
	h := &failpointProcess{report: filepath.Join(t.TempDir(), "report")}
	h.cmd = exec.CommandContext(t.Context(), program)
	h.cmd.Env = []string{"FAILPOINTS=" + armed, "FAILPOINTS_REPORT=" + h.report}
	h.cmd.Stdout, h.cmd.Stderr = &h.out, &h.out
	require.NoError(t, h.cmd.Start())
	return h
}

// end returns how the program ended.
func (h *failpointProcess) end(t *testing.T) syscall.WaitStatus {
	t.Helper()
	err := h.cmd.Wait()
	if _, exited := errors.AsType[*exec.ExitError](err); !exited {
		require.NoError(t, err)
	}
	return h.cmd.ProcessState.Sys().(syscall.WaitStatus)
}

func (h *failpointProcess) reported() string {
	text, _ := os.ReadFile(h.report)
	return string(text)
}

func TestFailpointActsAtTheGivenHit(t *testing.T) {
	t.Parallel()
	armed := build(t, "failpoints")

	t.Run("KillEndsTheProcessBeforeItGoesOn", func(t *testing.T) {
		t.Parallel()
		h := start(t, armed, "before_send=kill@2")
		status := h.end(t)
		require.True(t, status.Signaled())
		require.Equal(t, syscall.SIGKILL, status.Signal())
		require.Equal(t, "went on 1\n", h.out.String())
		require.Equal(t, "before_send 1 passed\nbefore_send 2 acted\n", h.reported())
	})
	t.Run("ExitEndsTheProcess", func(t *testing.T) {
		t.Parallel()
		h := start(t, armed, "before_send=exit@3")
		require.Equal(t, 86, h.end(t).ExitStatus())
		require.Equal(t, "went on 1\nwent on 2\n", h.out.String())
	})
	t.Run("StopHoldsTheProcessUntilItIsContinued", func(t *testing.T) {
		t.Parallel()
		h := start(t, armed, "before_send=stop")
		var status syscall.WaitStatus
		_, err := syscall.Wait4(h.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		require.NoError(t, err)
		require.True(t, status.Stopped())
		require.Equal(t, "before_send 1 acted\n", h.reported())
		require.NoError(t, h.cmd.Process.Signal(syscall.SIGCONT))
		require.Equal(t, 0, h.end(t).ExitStatus())
		require.Equal(t, 3, strings.Count(h.out.String(), "went on"))
	})
	t.Run("PauseHoldsTheGoroutineUntilTheFileIsThere", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "go-on")
		h := start(t, armed, "before_send=pause:"+file)
		waittest.Until(t, func() bool { return h.reported() != "" })
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		require.Equal(t, 0, h.end(t).ExitStatus())
		require.Equal(t, 3, strings.Count(h.reported(), "\n"), "later hits are counted too")
	})
	for armedFor, complaint := range map[string]string{
		"nowhere=kill": "unknown point", "before_send=burn": "the action must be", "before_send=kill@0": "is not the number of a hit",
		"before_send=pause": "the action must be",
	} {
		t.Run("Refuses "+armedFor, func(t *testing.T) {
			t.Parallel()
			h := start(t, armed, armedFor)
			require.Equal(t, 86, h.end(t).ExitStatus())
			require.Contains(t, h.out.String(), complaint)
		})
	}
}

func TestBuildWithoutTheTagHasNoFailpoints(t *testing.T) {
	t.Parallel()
	program := build(t, "")
	h := start(t, program, "before_send=kill")
	require.Equal(t, 0, h.end(t).ExitStatus())
	require.Equal(t, 3, strings.Count(h.out.String(), "went on"))
	require.Empty(t, h.reported())
	text, err := os.ReadFile(program)
	require.NoError(t, err)
	require.NotContains(t, string(text), "FAILPOINTS_REPORT")
}
