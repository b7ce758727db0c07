package devpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Names of files in the directory.
const (
	// lockName is locked by the owning process.
	lockName = "lock"
	// childrenName is locked by the owning process and the shells that it started.
	childrenName = "children.lock"
	// logName is the log of postgres and initdb since the last start. The log before it is
	// postgres.log.1.
	logName = "postgres.log"
	// socketName holds the path of the socket's directory.
	socketName = "socket"
	// movedName holds the path of the data if it cannot be in the directory.
	movedName = "data.moved"
	systemDir = "/var/lib/rubato"
)

// ErrInUse means that another running process owns the cluster in the directory.
var ErrInUse = errors.New("in use")

// home is the directory of a cluster, with the locks on it.
type home struct {
	// dir is the directory that the user named, as an absolute path.
	dir string
	// base holds the data. It is dir, or another directory if the server's account cannot enter
	// dir.
	base     string
	lock     *os.File
	children *os.File
}

func (h *home) dataDir() string    { return filepath.Join(h.base, "data") }
func (h *home) logFile() string    { return filepath.Join(h.dir, logName) }
func (h *home) socketNote() string { return filepath.Join(h.dir, socketName) }

// openHome creates dir if needed and locks it. It waits until the children of a killed owner have
// ended.
func openHome(ctx context.Context, dir string, acct account) (*home, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := acct.mkdirAll(abs); err != nil {
		return nil, err
	}
	h := &home{dir: abs}
	if h.lock, err = lockOwner(ctx, filepath.Join(abs, lockName)); err != nil {
		return nil, err
	}
	if h.children, err = lockChildren(ctx, filepath.Join(abs, childrenName)); err != nil {
		h.close()
		return nil, err
	}
	if h.base, err = baseFor(abs, acct); err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

// close releases the locks. No process may run on the data. It unlocks explicitly, because a child
// that another goroutine is starting has copies of the files until it calls exec. The lock files
// stay, because removing a locked file would let two processes lock two files of the same name.
func (h *home) close() {
	for _, f := range []*os.File{h.children, h.lock} {
		if f != nil {
			_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
			_ = f.Close()
		}
	}
}

// lockOwner takes the owner's lock. If a running process holds it, lockOwner fails at once and
// names the process. If the holder is dead, lockOwner waits, because a child that the holder was
// starting keeps the lock until it calls exec.
func lockOwner(ctx context.Context, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	locked, holder := false, 0
	err = poll(ctx, func() bool {
		locked = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
		holder = holderOf(path)
		return locked || (holder > 0 && alive(holder))
	})
	if err == nil && !locked {
		err = fmt.Errorf("%s is %w by process %d", filepath.Dir(path), ErrInUse, holder)
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// holderOf returns the process ID in a lock file, or 0 if there is none.
func holderOf(path string) int {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return pid
}

// lockChildren waits for the lock of the children of a killed owner. They were signalled to stop
// when it died.
func lockChildren(ctx context.Context, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = poll(ctx, func() bool { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil })
	if err != nil {
		return nil, errors.Join(fmt.Errorf("waiting for the postgres of a dead process in %s to stop: %w",
			filepath.Dir(path), err), f.Close())
	}
	return f, nil
}

// poll calls done until it returns true. It returns the context's error if ctx ends first.
func poll(ctx context.Context, done func() bool) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
	return nil
}

// baseFor returns the directory for the data of dir. It is usually dir. If root runs the server
// under another account, that account may be unable to enter dir. Then the data is in another
// directory, and a file in dir holds its path. Without that file the data directory is new and
// empty, so that deleting dir also discards the data.
func baseFor(dir string, acct account) (string, error) {
	if acct.canEnter(dir) {
		return dir, nil
	}
	note := filepath.Join(dir, movedName)
	if text, err := os.ReadFile(note); err == nil {
		base := strings.TrimSpace(string(text))
		if info, err := os.Stat(base); err == nil && info.IsDir() && acct.canEnter(base) {
			return base, nil
		}
	}
	base, err := moveOut(dir, acct)
	if err != nil {
		return "", fmt.Errorf("%s cannot enter %s, and there is no other place for the data: %w", acct.name, dir, err)
	}
	return base, os.WriteFile(note, []byte(base+"\n"), 0o600)
}

// moveOut creates a directory for data that cannot be in dir: in the temporary directory if dir is
// temporary, otherwise in systemDir.
func moveOut(dir string, acct account) (string, error) {
	if rel, err := filepath.Rel(os.TempDir(), dir); err == nil && filepath.IsLocal(rel) && acct.canEnter(os.TempDir()) {
		return acct.mkdirTemp(os.TempDir())
	}
	if err := acct.mkdirAll(systemDir); err != nil {
		return "", err
	}
	return acct.mkdirTemp(systemDir)
}

// openLog starts a new log and keeps the previous one.
func (h *home) openLog() (*os.File, error) {
	if err := os.Rename(h.logFile(), h.logFile()+".1"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(h.logFile(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
}

// logTail returns the last lines of the log, for error messages.
func (h *home) logTail() string {
	const lines = 12
	text, err := os.ReadFile(h.logFile())
	if err != nil {
		return err.Error()
	}
	if len(text) == 0 {
		return "(the log is empty; is the disk full?)"
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
