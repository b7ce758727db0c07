package dev

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

const (
	product = "rubato"
	// lockFile is in a data directory. The dev server that uses the directory holds its
	// lock.
	lockFile = "dev.lock"
)

// Home is the user's directory for Rubato. It holds the default data directory of `rubato dev` and
// the record of the running dev server.
type Home struct {
	dir       string
	temporary bool
}

// FindHome returns the directory for application data of a user. environ is the user's environment
// as a list of name=value. Without such a directory, as in a bare container, it is a private
// directory for temporary files.
func FindHome(environ []string) Home { return findHome(environ, runtime.GOOS) }

func findHome(environ []string, system string) Home {
	data, home := lookup(environ, "XDG_DATA_HOME"), lookup(environ, "HOME")
	switch {
	case filepath.IsAbs(data):
		return Home{dir: filepath.Join(data, product)}
	case !filepath.IsAbs(home) || !isDir(home):
		return Home{dir: filepath.Join(os.TempDir(), product+"-"+strconv.Itoa(os.Getuid())), temporary: true}
	case system == "darwin":
		return Home{dir: filepath.Join(home, "Library", "Application Support", product)}
	default:
		return Home{dir: filepath.Join(home, ".local", "share", product)}
	}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// lookup returns the value of a variable, or "". The last of equal names counts, as it does for
// every program.
func lookup(environ []string, name string) (value string) {
	for _, pair := range environ {
		if v, found := strings.CutPrefix(pair, name+"="); found {
			value = v
		}
	}
	return value
}

// DataDir returns the default data directory of `rubato dev`. It creates the home and checks its
// owner.
func (h Home) DataDir() (string, error) {
	if err := h.make(); err != nil {
		return "", err
	}
	return filepath.Join(h.dir, "dev"), nil
}

// Temporary reports whether the home is among temporary files, so that its data may not survive a
// restart of the machine.
func (h Home) Temporary() bool { return h.temporary }

// make creates the home and checks its owner. Other accounts may enter it, because Postgres may run
// under another one.
func (h Home) make() error {
	if err := os.MkdirAll(h.dir, 0o711); err != nil { //nolint:gosec // Files in it have modes of their own.
		return fmt.Errorf("making the directory for application data: %w", err)
	}
	return h.check()
}

// check refuses a temporary home that another user owns or may write, because its name is
// predictable.
func (h Home) check() error {
	if !h.temporary {
		return nil
	}
	info, err := os.Lstat(h.dir)
	if err != nil {
		return err
	}
	owner, known := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || info.Mode().Perm()&0o022 != 0 || known && int(owner.Uid) != os.Getuid() {
		return fmt.Errorf("%s belongs to another user: set HOME, or give --data-dir", h.dir)
	}
	return nil
}

// dataDir is the locked data directory of one dev server.
type dataDir struct {
	// path is absolute.
	path string
	lock *os.File
}

// openDataDir locks the directory. It creates it if it is missing.
func openDataDir(path string) (*dataDir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("finding the data directory: %w", err)
	}
	if err := os.MkdirAll(abs, 0o755); err != nil { //nolint:gosec // The account of Postgres must be able to enter; secret files have their own mode.
		return nil, fmt.Errorf("making the data directory (choose another with --data-dir): %w", err)
	}
	lock, err := lockDir(abs)
	if err != nil {
		return nil, err
	}
	return &dataDir{path: abs, lock: lock}, nil
}

// lockDir locks a data directory. If it is locked, lockDir fails at once and names the process that
// holds the lock. The system releases the lock when the process ends.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the data directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder, _ := io.ReadAll(io.LimitReader(f, 32))
		return nil, errors.Join(fmt.Errorf("the dev server of process %s uses %s: stop it, or give this one another --data-dir",
			strings.TrimSpace(string(holder)), dir), f.Close())
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking the data directory: %w", err), f.Close())
	}
	return f, nil
}

// close releases the lock. The file stays, because two processes could otherwise lock two files of
// the same name.
func (d *dataDir) close() {
	// Closing the file alone is not enough: a child that is being forked shares it until it calls
	// exec.
	_ = syscall.Flock(int(d.lock.Fd()), syscall.LOCK_UN)
	_ = d.lock.Close()
}

// in returns the path of a file of the directory.
func (d *dataDir) in(name string) string { return filepath.Join(d.path, name) }
