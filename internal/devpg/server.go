package devpg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	superuser  = "rubato"
	socketFile = "/.s.PGSQL.5432"

	// maxSocketPath is the longest path of a Unix socket on all supported systems, in bytes.
	maxSocketPath = 103

	// startTimeout bounds the start of the server. It usually takes 100 ms, but crash recovery
	// takes longer.
	startTimeout = time.Minute

	// stopTimeout bounds a stop without a deadline. It is longer than the 5 s after which an
	// immediate shutdown kills the server's processes.
	stopTimeout = 10 * time.Second

	// invalidCatalogName is the SQLSTATE for a missing database.
	invalidCatalogName = "3D000"
)

// run starts the server and waits until it is ready. If the sessions of a killed server still use
// its shared memory, the new server exits and leaves the old pid file. In that case run retries
// until they have ended.
func (c *Cluster) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	begun := time.Now()
	log, err := c.home.openLog()
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	defer func() { _ = log.Close() }()
	for {
		if err := clearOrphan(ctx, c.home.dataDir()); err != nil {
			return err
		}
		if err := c.launch(log); err != nil {
			return err
		}
		err := c.awaitReady(ctx)
		if err == nil {
			c.cfg.Logger.Debug("postgres ready", "dir", c.home.dir, "duration", time.Since(begun))
			return nil
		}
		c.server.end(ctx, stopTimeout)
		c.server = nil
		if _, pidErr := readPidFile(c.home.dataDir()); pidErr != nil || ctx.Err() != nil || time.Since(begun) > orphanTimeout {
			return err
		}
	}
}

// launch starts the server process. [runsOn] recognizes it by this command line.
func (c *Cluster) launch(log *os.File) error {
	if err := c.makeSocketDir(); err != nil {
		return fmt.Errorf("making the directory of the socket: %w", err)
	}
	p := childParams{
		Account:      c.acct,
		Lock:         c.home.children,
		Output:       log,
		RemoveAlways: c.socket,
	}
	if c.cfg.Ephemeral {
		p.RemoveOrphaned = c.home.base
	}
	p.Args = []string{filepath.Join(c.bin, "postgres"), "-D", c.home.dataDir(), "-k", c.socket}
	settings := c.settings()
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		p.Args = append(p.Args, "-c", name+"="+settings[name])
	}
	var err error
	c.server, err = startChild(p)
	return err
}

// makeSocketDir creates a new directory for the socket, or the same one again after a stop. It
// records the path in a file, so that the next start can remove the directory of a killed process.
func (c *Cluster) makeSocketDir() error {
	note := c.home.socketNote()
	if left, err := os.ReadFile(note); err == nil {
		// If the removal fails, an empty directory is left.
		_ = os.RemoveAll(string(left))
	}
	if c.socket == "" {
		dir, err := c.acct.mkdirTemp(tempBases()...)
		if err != nil {
			return err
		}
		c.socket = dir
	} else if err := os.Mkdir(c.socket, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(note, []byte(c.socket), 0o600); err != nil {
		return err
	}
	if err := os.Chmod(c.socket, 0o700); err != nil { //nolint:gosec // a directory
		return err
	}
	return c.acct.own(c.socket)
}

// settings returns the settings of the server. They are passed on the command line, so that the
// files in the data directory stay as initdb wrote them and an old directory gets new settings.
func (c *Cluster) settings() map[string]string {
	s := map[string]string{
		"listen_addresses": "",
		// Only warnings and errors are useful in this log.
		"log_checkpoints": "off",
		"log_timezone":    "UTC",
		// Many parallel tests each use a connection pool.
		"max_connections":         "200",
		"port":                    "5432",
		"timezone":                "UTC",
		"unix_socket_permissions": "0700",
	}
	if !c.cfg.Durable {
		maps.Copy(s, map[string]string{
			"fsync":            "off",
			"full_page_writes": "off",
			"max_wal_senders":  "0",
			"wal_level":        "minimal",
		})
	}
	maps.Copy(s, c.cfg.Settings)
	return s
}

// awaitReady waits until the database accepts connections. If the server ends first, the error
// contains the end of its log.
func (c *Cluster) awaitReady(ctx context.Context) error {
	for {
		err := c.ensureDatabase(ctx)
		if err == nil {
			return nil
		}
		if c.server.exitsWithin(pollEvery) {
			return fmt.Errorf("postgres ended at once; the end of %s:\n%s", c.home.logFile(), c.home.logTail())
		}
		if ctx.Err() != nil {
			return fmt.Errorf("waiting for postgres to accept connections: %w", errors.Join(ctx.Err(), err))
		}
	}
}

// ensureDatabase creates the database if it does not exist.
func (c *Cluster) ensureDatabase(ctx context.Context) error {
	err := execute(ctx, c.URL(), "SELECT 1")
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && pgErr.Code == invalidCatalogName {
		return execute(ctx, c.URLFor("postgres"), "CREATE DATABASE "+pgx.Identifier{c.cfg.Database}.Sanitize())
	}
	return err
}

// execute runs one statement on a new connection.
func execute(ctx context.Context, dsn, sql string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	return errors.Join(err, conn.Close(ctx))
}
