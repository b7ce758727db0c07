package devpg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// orphanTimeout bounds the wait after each signal to an orphaned postgres before a stronger signal
// follows.
const orphanTimeout = 10 * time.Second

// pidFile is the used part of a postmaster.pid.
type pidFile struct {
	path string
	pid  int
}

// readPidFile returns the pid file of a data directory, or os.ErrNotExist. A malformed file has pid
// 0. It remains if its writer was killed.
func readPidFile(dataDir string) (pidFile, error) {
	f := pidFile{path: filepath.Join(dataDir, "postmaster.pid")}
	text, err := os.ReadFile(f.path)
	if err != nil {
		return f, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	if n, err := strconv.Atoi(strings.TrimSpace(first)); err == nil {
		// A standalone backend writes its process ID negated.
		f.pid = max(n, -n)
	}
	return f, nil
}

// clearOrphan stops a postgres that runs on dataDir. If the process ID in the pid file belongs to
// another program now, it removes the file, because Postgres would refuse to start. If no such
// process exists, it leaves the file to Postgres, which checks the shared memory that the file
// names. The caller holds both locks.
func clearOrphan(ctx context.Context, dataDir string) error {
	f, err := readPidFile(dataDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the pid file in %s: %w", dataDir, err)
	}
	if runsOn(f.pid, dataDir) {
		if err := stopOrphan(ctx, f.pid, dataDir, orphanTimeout); err != nil {
			return fmt.Errorf("stopping postgres %d, left on %s: %w", f.pid, dataDir, err)
		}
	} else if f.pid == 0 || alive(f.pid) {
		if err := os.Remove(f.path); err != nil {
			return fmt.Errorf("removing a stale pid file: %w", err)
		}
	}
	return nil
}

// stopOrphan sends the signals for a fast shutdown, for an immediate shutdown, and a kill. It waits
// for timeout after each.
func stopOrphan(ctx context.Context, pid int, dataDir string, timeout time.Duration) error {
	var err error
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL} {
		if err = syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
		waitCtx, cancel := context.WithTimeout(ctx, timeout)
		err = poll(waitCtx, func() bool { return !runsOn(pid, dataDir) })
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

func alive(pid int) bool {
	return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

// runsOn reports whether process pid is a postgres server on dataDir. It compares the command line
// with that of Cluster.launch. A zombie process has none.
func runsOn(pid int, dataDir string) bool {
	return pid > 0 && strings.Contains(commandLine(pid)+" ", "postgres -D "+dataDir+" ")
}

// commandLine returns the arguments of a process, separated by spaces, or "".
func commandLine(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err == nil {
		return string(bytes.ReplaceAll(bytes.TrimRight(text, "\x00"), []byte{0}, []byte{' '}))
	}
	if _, err := os.Stat("/proc/self/cmdline"); err == nil {
		// This system has such files, so the process has ended.
		return ""
	}
	out, err := exec.Command("ps", "-ww", "-o", "args=", "-p", strconv.Itoa(pid)).Output() //nolint:noctx // It answers at once.
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
