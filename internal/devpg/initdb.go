package devpg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// sidePrefix begins the names of incomplete data directories. A complete one is renamed into place.
const sidePrefix = "init-"

// prepare finds the server's programs and creates the data directory if it is missing.
func (c *Cluster) prepare(ctx context.Context) error {
	source := c.home.dataDir()
	want, err := dataMajor(source)
	if err != nil {
		return err
	}
	missing := want == 0
	if missing && c.cfg.Seed != "" {
		source = filepath.Join(c.cfg.Seed, "data")
		if want, err = dataMajor(source); err != nil {
			return err
		}
	}
	if c.bin, err = cmp.Or(c.cfg.finder, newFinder(c.acct)).find(ctx, c.acct, want); err != nil {
		return err
	}
	if c.cfg.Ephemeral {
		// The shell that removes the directory runs under that account.
		if err := c.acct.own(c.home.base); err != nil {
			return err
		}
	}
	if err := c.removeSides(); err != nil || !missing {
		return err
	}
	return c.build(ctx)
}

// dataMajor returns the major version of a data directory, or 0 if there is none.
func dataMajor(dataDir string) (int, error) {
	text, err := os.ReadFile(filepath.Join(dataDir, "PG_VERSION"))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("reading the version of %s: %w", dataDir, err)
	}
	return major, nil
}

// removeSides removes incomplete data directories of killed processes.
func (c *Cluster) removeSides() error {
	entries, err := os.ReadDir(c.home.base)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), sidePrefix) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(c.home.base, entry.Name())); err != nil {
			return fmt.Errorf("removing an unfinished data directory: %w", err)
		}
	}
	return nil
}

// build creates the data directory under a temporary name and renames it into place.
func (c *Cluster) build(ctx context.Context) error {
	side, err := os.MkdirTemp(c.home.base, sidePrefix+"*")
	if err != nil {
		return err
	}
	// After the rename there is nothing to remove.
	defer os.RemoveAll(side)
	if err := c.acct.own(side); err != nil {
		return err
	}
	log, err := c.home.openLog()
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	p := childParams{
		Account: c.acct,
		Args:    c.buildArgs(side),
		Lock:    c.home.children,
		Output:  log,
	}
	if c.cfg.Ephemeral {
		p.RemoveOrphaned = c.home.base
	}
	err = runChild(ctx, p)
	if err != nil {
		return fmt.Errorf("making the data directory: %w; the end of %s:\n%s", err, c.home.logFile(), c.home.logTail())
	}
	return os.Rename(side, c.home.dataDir())
}

// buildArgs returns the command that fills side. It does not sync, because a crash of the machine
// in the first seconds would lose only an empty cluster.
func (c *Cluster) buildArgs(side string) []string {
	if c.cfg.Seed != "" {
		return []string{"cp", "-Rp", filepath.Join(c.cfg.Seed, "data") + "/.", side}
	}
	return []string{
		filepath.Join(c.bin, "initdb"), "--pgdata", side, "--username", superuser, "--auth", "trust",
		"--encoding", "UTF8", "--locale", "C", "--no-sync",
	}
}
