package devpg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"sync"
	"syscall"
	"time"
)

// supervisePeriod is the interval at which Supervise checks the server.
const supervisePeriod = time.Second

// Config describes the cluster to start. Only Dir is required.
type Config struct {
	// Database is created if it is missing. The default is "rubato".
	Database string
	// Dir holds the data, the locks and the server's log. It is created if it is missing.
	Dir string
	// Durable makes data survive a crash of the machine. Without it the server is faster, and data
	// survives a crash of the process only.
	Durable bool
	// Ephemeral removes Dir when the cluster stops, also if the process is killed. It excludes
	// Durable.
	Ephemeral bool
	// Logger defaults to no logging.
	Logger *slog.Logger
	// Seed is the Dir of a stopped cluster. A missing data directory is copied from it instead of
	// created by initdb.
	Seed string
	// Settings are further settings of the server. They override the defaults of this package.
	Settings map[string]string

	// finder is nil for the usual locations.
	finder *finder
}

// Cluster is a running private Postgres. It is safe for concurrent use.
type Cluster struct {
	cfg  Config
	acct account
	// bin is the directory of the server's programs.
	bin  string
	home *home
	// socket is the directory of the socket. It does not change while the Cluster exists.
	socket string

	// mu guards server and closed, and serializes Stop and Restart.
	mu sync.Mutex
	// server is nil if the server is stopped.
	server *child
	closed bool
}

// Start starts the cluster in cfg.Dir and creates it if it does not exist. It returns once the
// server accepts connections and cfg.Database exists. It first stops a server that a killed process
// left there. If another process owns the directory, the error wraps [ErrInUse] and names the
// process. If the machine has no Postgres, the error explains how to install it.
//
// The cluster runs until [Cluster.Stop] or the end of this process. ctx bounds the start alone.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	cfg.Database = cmp.Or(cfg.Database, superuser)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Durable && cfg.Ephemeral {
		return nil, errors.New("starting postgres: a cluster cannot be both durable and ephemeral")
	}
	acct, err := serverAccount()
	if err != nil {
		return nil, err
	}
	c := &Cluster{cfg: cfg, acct: acct}
	if c.home, err = openHome(ctx, cfg.Dir, acct); err != nil {
		return nil, fmt.Errorf("opening the cluster in %s: %w", cfg.Dir, err)
	}
	c.acct = acct.ownerOf(c.home.dataDir())
	if err := c.prepare(ctx); err != nil {
		c.discard()
		return nil, fmt.Errorf("preparing the cluster in %s: %w", cfg.Dir, err)
	}
	if err := c.run(ctx); err != nil {
		c.discard()
		return nil, fmt.Errorf("starting the cluster in %s: %w", cfg.Dir, err)
	}
	return c, nil
}

// URL returns the connection string of cfg.Database, for pgx and for psql.
func (c *Cluster) URL() string { return c.URLFor(c.cfg.Database) }

// URLFor returns the connection string of another database of the cluster.
func (c *Cluster) URLFor(database string) string {
	query := url.Values{"host": {c.socket}, "sslmode": {"disable"}}
	u := url.URL{
		Scheme:   "postgres",
		User:     url.User(superuser),
		Path:     "/" + database,
		RawQuery: query.Encode(),
	}
	return u.String()
}

// Dir returns the directory the cluster was started in, as an absolute path.
func (c *Cluster) Dir() string { return c.home.dir }

// Pid returns the process ID of the postmaster.
func (c *Cluster) Pid() (int, error) {
	f, err := readPidFile(c.home.dataDir())
	if err != nil {
		return 0, fmt.Errorf("reading the number of the server process: %w", err)
	}
	return f.pid, nil
}

// Stop shuts the server down in fast mode: sessions are terminated, open transactions are rolled
// back, committed data is kept. When it returns, no process runs and the directory is unlocked. If
// ctx ends first, the server is stopped immediately and Stop returns an error; committed data is
// kept. Further calls return nil.
func (c *Cluster) Stop(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	err := c.halt(ctx)
	c.discard()
	return err
}

// Restart stops the server and starts it again under the same URL. It also starts a server that has
// crashed.
func (c *Cluster) Restart(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.restart(ctx)
}

// Supervise restarts the server whenever it has ended unexpectedly, until ctx ends. The cause may
// be a kill or a full disk. If a restart fails, Supervise retries it every second.
func (c *Cluster) Supervise(ctx context.Context) {
	ticker := time.NewTicker(supervisePeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		c.revive(ctx)
	}
}

// revive restarts the server if it has ended.
func (c *Cluster) revive(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.server != nil && !c.server.exitsWithin(pollEvery) {
		return
	}
	c.cfg.Logger.Warn("private Postgres ended; restarting it", "dir", c.home.dir)
	if err := c.restart(ctx); err != nil && ctx.Err() == nil {
		c.cfg.Logger.Error("restarting the private Postgres failed; retrying", "error", err)
	}
}

// restart stops the server if it runs, and starts it again. The caller holds mu.
func (c *Cluster) restart(ctx context.Context) error {
	if c.closed {
		return fmt.Errorf("restarting the cluster in %s: it is stopped", c.home.dir)
	}
	if err := c.halt(ctx); err != nil {
		return err
	}
	if err := c.run(ctx); err != nil {
		return fmt.Errorf("restarting the cluster in %s: %w", c.home.dir, err)
	}
	return nil
}

// halt stops the server if it runs. If ctx ends first, it sends the signal for an immediate
// shutdown, which ends all processes of the server, unlike a kill. The caller holds mu or the only
// reference.
func (c *Cluster) halt(ctx context.Context) error {
	if c.server == nil {
		return nil
	}
	err := c.server.stop(ctx)
	if err != nil {
		if pid, pidErr := c.Pid(); pidErr == nil && runsOn(pid, c.home.dataDir()) {
			_ = syscall.Kill(pid, syscall.SIGQUIT)
		}
		c.server.end(ctx, stopTimeout)
		err = fmt.Errorf("stopping the postgres in %s before the deadline: %w", c.home.dir, err)
	}
	c.server = nil
	c.cfg.Logger.Debug("postgres stopped", "dir", c.home.dir)
	return err
}

// discard removes temporary files and releases the locks. No process may run in the directory.
func (c *Cluster) discard() {
	if c.socket != "" {
		// The supervising shell has removed the directory, unless it was killed.
		_ = os.RemoveAll(c.socket)
		_ = os.Remove(c.home.socketNote())
	}
	if c.cfg.Ephemeral {
		_ = os.RemoveAll(c.home.base)
		_ = os.RemoveAll(c.home.dir)
	}
	c.home.close()
}
