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

// orphanPatience is how long an orphan may take over each signal before it gets the next, harder one.
const orphanPatience = 10 * time.Second

// pidFile is what we use of a postmaster.pid.
type pidFile struct {
	path string
	pid  int
}

// readPidFile returns the pid file of a data directory, or os.ErrNotExist. One that cannot be understood (its writer was killed
// while writing) counts as naming no process.
func readPidFile(dataDir string) (pidFile, error) {
	f := pidFile{path: filepath.Join(dataDir, "postmaster.pid")}
	text, err := os.ReadFile(f.path)
	if err != nil {
		return f, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	if n, err := strconv.Atoi(strings.TrimSpace(first)); err == nil {
		f.pid = max(n, -n) // a standalone backend writes its number negated
	}
	return f, nil
}

// clearOrphan makes sure that no postgres runs on dataDir: one that does is stopped. A pid file whose number belongs to some
// other program now is removed, because Postgres would refuse to start. One whose process is gone is left to Postgres, which
// looks at the shared memory it names before taking over. The caller holds both locks.
func clearOrphan(ctx context.Context, dataDir string) error {
	f, err := readPidFile(dataDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the pid file in %s: %w", dataDir, err)
	}
	if runsOn(f.pid, dataDir) {
		if err := stopOrphan(ctx, f.pid, dataDir, orphanPatience); err != nil {
			return fmt.Errorf("stopping postgres %d, left on %s: %w", f.pid, dataDir, err)
		}
	} else if f.pid == 0 || alive(f.pid) {
		if err := os.Remove(f.path); err != nil {
			return fmt.Errorf("removing a stale pid file: %w", err)
		}
	}
	return nil
}

// stopOrphan sends the signals for a fast and an immediate shutdown, then kills; each time it waits.
func stopOrphan(ctx context.Context, pid int, dataDir string, patience time.Duration) error {
	var err error
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL} {
		if err = syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
		waitCtx, cancel := context.WithTimeout(ctx, patience)
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

// runsOn reports whether process pid is a postgres server on dataDir, judged by its command line, which is the one that
// Cluster.launch writes. A dead process that nobody has collected yet has none.
func runsOn(pid int, dataDir string) bool {
	return pid > 0 && strings.Contains(commandLine(pid)+" ", "postgres -D "+dataDir+" ")
}

// commandLine returns the arguments of a process with spaces between them, or nothing.
func commandLine(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err == nil {
		return string(bytes.ReplaceAll(bytes.TrimRight(text, "\x00"), []byte{0}, []byte{' '}))
	}
	if _, err := os.Stat("/proc/self/cmdline"); err == nil {
		return "" // this system has such files, so the process is gone
	}
	out, err := exec.Command("ps", "-ww", "-o", "args=", "-p", strconv.Itoa(pid)).Output() //nolint:noctx // answers at once
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
