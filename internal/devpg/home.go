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

const (
	lockName     = "lock"          // held by the owning process
	childrenName = "children.lock" // held by the owning process and the shells it started
	logName      = "postgres.log"  // what postgres and initdb said since the last start; the one before is postgres.log.1
	socketName   = "socket"        // says where the directory of the socket is
	movedName    = "data.moved"    // says where the data is, when it cannot be here
	systemDir    = "/var/lib/rubato"
)

// ErrInUse means that another live process owns the cluster in the directory.
var ErrInUse = errors.New("in use")

// home is the directory of a cluster, with the locks that make it ours.
type home struct {
	dir      string // as the user named it, absolute
	base     string // where the data is: dir, or another place if the server's account cannot enter dir
	lock     *os.File
	children *os.File
}

func (h *home) dataDir() string    { return filepath.Join(h.base, "data") }
func (h *home) logFile() string    { return filepath.Join(h.dir, logName) }
func (h *home) socketNote() string { return filepath.Join(h.dir, socketName) }

// openHome makes dir if needed and locks it. It waits until the children of a killed owner are gone.
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

// close gives the locks up; nothing runs on the data. It unlocks in so many words, because a child that another goroutine is just
// starting has copies of the files until it runs its program. The lock files stay: removing a locked file would let two processes
// lock two files of one name.
func (h *home) close() {
	for _, f := range []*os.File{h.children, h.lock} {
		if f != nil {
			_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
			_ = f.Close()
		}
	}
}

// lockOwner takes the owner's lock or fails at once, naming the process that has it. A lock whose holder is dead is waited for: a
// child that the holder was just starting when it was killed has it for a moment more, until it runs its program.
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

// holderOf returns the process that a lock file names, 0 while it names none.
func holderOf(path string) int {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return pid
}

// lockChildren waits for the lock that the children of a killed owner still hold. They were told to stop when it died.
func lockChildren(ctx context.Context, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = poll(ctx, func() bool { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil })
	if err != nil {
		return nil, errors.Join(fmt.Errorf("waiting for the postgres that a dead process left in %s to stop: %w",
			filepath.Dir(path), err), f.Close())
	}
	return f, nil
}

// poll calls done until it is true, and returns the context's error if that ends first.
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

// baseFor decides where the data of dir is. Usually in dir; but root's own directories are closed to the account that root runs
// the server as, so then the data is elsewhere and a file in dir says where. That file decides: without it a new, empty place is
// taken, so that deleting dir means what it says.
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

// moveOut makes a directory for data that cannot be in dir: temporary data stays temporary, the rest goes to the system's place.
func moveOut(dir string, acct account) (string, error) {
	if rel, err := filepath.Rel(os.TempDir(), dir); err == nil && filepath.IsLocal(rel) && acct.canEnter(os.TempDir()) {
		return acct.mkdirTemp(os.TempDir())
	}
	if err := acct.mkdirAll(systemDir); err != nil {
		return "", err
	}
	return acct.mkdirTemp(systemDir)
}

// openLog starts a new log and keeps the one before.
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
		return "(it could say nothing; is the disk full?)"
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
