package devpgtest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"rubato/internal/devpg"
)

const (
	// layout is part of the name of every golden directory. Raise it when a change here makes
	// existing ones invalid.
	layout = "1"

	// templateDatabase is the database in a golden directory from which tests get copies.
	templateDatabase = "template_rubato"

	goldenPrefix = "golden-"
	// sideSuffix ends the name of an incomplete directory.
	sideSuffix = ".side"
	lockSuffix = ".lock"

	// goldenAge is how long an unused golden directory is kept. It is long enough to switch between
	// branches.
	goldenAge = 7 * 24 * time.Hour
)

// golden returns the golden directory of a template and builds it if it is missing. The caller must
// call release after it has copied the directory.
func golden(ctx context.Context, template Template) (dir string, release func(), err error) {
	cache, err := devpg.CacheDir()
	if err != nil {
		return "", nil, err
	}
	major, err := devpg.Major(ctx)
	if err != nil {
		return "", nil, err
	}
	sum := sha256.Sum256([]byte(template.Key))
	dir = filepath.Join(cache, fmt.Sprintf("%s%s-%d-%x", goldenPrefix, layout, major, sum[:8]))
	lock, err := lockFile(dir + lockSuffix)
	if err != nil {
		return "", nil, err
	}
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		removeUnused(cache)
		if err := build(ctx, dir, template); err != nil {
			return "", nil, errors.Join(fmt.Errorf("building the template database: %w", err), lock.Close())
		}
	}
	// The time of a lock file is that of the last use of its directory.
	now := time.Now()
	err = errors.Join(os.Chtimes(lock.Name(), now, now), syscall.Flock(int(lock.Fd()), syscall.LOCK_SH))
	if err != nil {
		return "", nil, errors.Join(err, lock.Close())
	}
	return dir, func() { _ = lock.Close() }, nil
}

// build creates the golden directory under a temporary name and renames it into place. Its cluster
// runs for the migration only.
func build(ctx context.Context, dir string, template Template) error {
	side := dir + sideSuffix
	if err := os.RemoveAll(side); err != nil {
		return err
	}
	// After the rename there is nothing to remove.
	defer os.RemoveAll(side)
	cluster, err := devpg.Start(ctx, devpg.Config{Dir: side, Database: templateDatabase})
	if err != nil {
		return err
	}
	if template.Migrate != nil {
		err = template.Migrate(ctx, cluster.URL())
	}
	if err = errors.Join(err, cluster.Stop(ctx)); err != nil {
		return err
	}
	return os.Rename(side, dir)
}

// removeUnused removes golden directories, complete or not, that were not used for goldenAge. It
// skips locked ones, because a process is copying them. A failed removal costs only disk space. The
// lock files stay, because a process may be waiting for them.
func removeUnused(cache string) {
	locks, _ := filepath.Glob(filepath.Join(cache, goldenPrefix+"*"+lockSuffix))
	for _, path := range locks {
		info, err := os.Stat(path)
		if err != nil || time.Since(info.ModTime()) < goldenAge {
			continue
		}
		lock, err := os.OpenFile(path, os.O_RDWR, 0o600)
		if err != nil {
			continue
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			dir := strings.TrimSuffix(path, lockSuffix)
			_ = os.RemoveAll(dir)
			_ = os.RemoveAll(dir + sideSuffix)
		}
		_ = lock.Close()
	}
}

// lockFile takes an exclusive lock on a file. It waits for processes that build or copy the
// directory.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
