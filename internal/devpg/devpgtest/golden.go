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
	// layout is part of the name of every golden directory: raise it when a change here makes the old ones unfit.
	layout = "1"

	// templateDatabase is the database in a golden directory that tests get copies of.
	templateDatabase = "template_rubato"

	goldenPrefix = "golden-"
	sideSuffix   = ".side" // of one being built
	lockSuffix   = ".lock"

	// goldenAge is how long an unused golden directory is kept: long enough to switch between branches.
	goldenAge = 7 * 24 * time.Hour
)

// golden returns the golden directory of a template, built if it is missing, and a function that the caller calls once it has
// made its copy.
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
	now := time.Now() // the time of a lock file says when its directory was last used
	err = errors.Join(os.Chtimes(lock.Name(), now, now), syscall.Flock(int(lock.Fd()), syscall.LOCK_SH))
	if err != nil {
		return "", nil, errors.Join(err, lock.Close())
	}
	return dir, func() { _ = lock.Close() }, nil
}

// build makes the golden directory aside, with a cluster that runs for the migration only, and renames it into place.
func build(ctx context.Context, dir string, template Template) error {
	side := dir + sideSuffix
	if err := os.RemoveAll(side); err != nil {
		return err
	}
	defer os.RemoveAll(side) // nothing once it is in place
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

// removeUnused removes golden directories that nobody used for long, finished or not. One that cannot be removed costs disk only,
// and one that somebody is copying is locked. The lock files stay, because somebody may be waiting for them.
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

// lockFile takes the lock of that name, waiting for whoever builds or copies.
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
