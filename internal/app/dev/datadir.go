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
	product  = "rubato"
	lockFile = "dev.lock" // in a data directory: held by the dev server that uses it
)

// Home is where a user's own files of Rubato are: the default data directory of `rubato dev`, and the note that says which dev
// server runs.
type Home struct {
	dir       string
	temporary bool
}

// FindHome returns the place for application data of the user whose environment it is, a list of name=value. Where there is none, as in a
// bare container, it is a private directory among the temporary files, which lasts no longer than those.
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

// lookup returns the value of a name, empty where there is none. As for every program, the last of equal names counts.
func lookup(environ []string, name string) (value string) {
	for _, pair := range environ {
		if v, found := strings.CutPrefix(pair, name+"="); found {
			value = v
		}
	}
	return value
}

// DataDir returns the default data directory of `rubato dev`, in a home that is ours and exists.
func (h Home) DataDir() (string, error) {
	if err := h.make(); err != nil {
		return "", err
	}
	return filepath.Join(h.dir, "dev"), nil
}

// Temporary reports whether the data in it lasts no longer than temporary files do.
func (h Home) Temporary() bool { return h.temporary }

// make creates the directory, and sees to it that it is ours. Others may pass through it: the account that Postgres runs as must.
func (h Home) make() error {
	if err := os.MkdirAll(h.dir, 0o711); err != nil { //nolint:gosec // Files in it have modes of their own.
		return fmt.Errorf("making the directory for application data: %w", err)
	}
	return h.check()
}

// check refuses a temporary home that is not ours alone: its name can be guessed by whoever shares the machine.
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
		return fmt.Errorf("%s belongs to somebody else: set HOME, or give --data-dir", h.dir)
	}
	return nil
}

// dataDir is the directory of one dev server, locked for it.
type dataDir struct {
	path string // absolute
	lock *os.File
}

// openDataDir makes the directory if it is missing and locks it.
func openDataDir(path string) (*dataDir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("finding the data directory: %w", err)
	}
	if err := os.MkdirAll(abs, 0o755); err != nil { //nolint:gosec // The account that Postgres runs as must be able to enter; what is secret has its own mode.
		return nil, fmt.Errorf("making the data directory (choose another with --data-dir): %w", err)
	}
	lock, err := lockDir(abs)
	if err != nil {
		return nil, err
	}
	return &dataDir{path: abs, lock: lock}, nil
}

// lockDir takes the lock of a data directory or fails at once, naming who has it. The system gives it up with the process.
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

// close gives the lock up. The file stays: two processes could lock two files of one name.
func (d *dataDir) close() {
	_ = syscall.Flock(int(d.lock.Fd()), syscall.LOCK_UN) // A process that is just being forked has the file, too, until it becomes another program.
	_ = d.lock.Close()
}

// in returns the path of a file of the directory.
func (d *dataDir) in(name string) string { return filepath.Join(d.path, name) }
