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

// tendPeriod is how often a server that is tended is looked at.
const tendPeriod = time.Second

// Config says which cluster to start. Only Dir is required.
type Config struct {
	Database  string            // created if missing; default "rubato"
	Dir       string            // holds the data, the locks and the server's log; made if missing
	Durable   bool              // survive a crash of the machine; without it only of the process, and faster
	Ephemeral bool              // Dir is removed when the cluster stops, also when the process is killed; excludes Durable
	Logger    *slog.Logger      // default: nothing is logged
	Seed      string            // Dir of a stopped cluster that a missing data directory is copied from, instead of initdb
	Settings  map[string]string // further server settings; they win over ours

	finder *finder // nil: the usual places
}

// Cluster is a running private Postgres. Its methods may be called from any goroutine.
type Cluster struct {
	cfg    Config
	acct   account
	bin    string // directory of the programs
	home   *home
	socket string // directory of the socket; the same for the life of the Cluster

	mu     sync.Mutex // guards server, and keeps Stop and Restart apart
	server *child     // nil when stopped
	closed bool
}

// Start starts the cluster in cfg.Dir, making it first if it does not exist, and returns once it accepts connections and
// cfg.Database exists. It stops a server that a killed process left there. When another process owns the directory the error is
// [ErrInUse] and names it. When the machine has no Postgres the error says how to get one. The cluster runs until
// [Cluster.Stop] or the end of this process, whichever is first; ctx bounds the start alone.
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
	u := url.URL{Scheme: "postgres", User: url.User(superuser), Path: "/" + database, RawQuery: query.Encode()}
	return u.String()
}

// Dir returns the directory the cluster was started in, as an absolute path.
func (c *Cluster) Dir() string { return c.home.dir }

// Pid returns the number of the server's first process.
func (c *Cluster) Pid() (int, error) {
	f, err := readPidFile(c.home.dataDir())
	if err != nil {
		return 0, fmt.Errorf("reading the number of the server process: %w", err)
	}
	return f.pid, nil
}

// Stop shuts the server down fast: sessions are cut off, transactions in progress are rolled back, committed data is kept. When
// it returns nothing runs any more and the directory is free. Should ctx end first, the server is stopped at once and the error says
// so; even then committed data is kept. Further calls return nil.
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

// Restart stops the server and starts it again under the same URL. It also brings a server back that died.
func (c *Cluster) Restart(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.restart(ctx)
}

// Tend brings the server back whenever it has died, until ctx ends: somebody killed it, or it ended itself because the disk was full. Where
// it cannot be brought back it tries again, for as long as that takes.
func (c *Cluster) Tend(ctx context.Context) {
	look := time.NewTicker(tendPeriod)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		c.revive(ctx)
	}
}

// revive restarts a server that has died.
func (c *Cluster) revive(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.server != nil && !c.server.exitsWithin(pollEvery) {
		return
	}
	c.cfg.Logger.Warn("the private Postgres has ended; starting it again", "dir", c.home.dir)
	if err := c.restart(ctx); err != nil && ctx.Err() == nil {
		c.cfg.Logger.Error("starting the private Postgres again failed; trying again", "error", err)
	}
}

// restart stops what runs and starts it again. The caller holds mu.
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

// halt stops the server if there is one. When ctx ends, the server gets the signal for an immediate shutdown: unlike a kill that
// ends its other processes too. The caller holds mu or has the only reference.
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
		err = fmt.Errorf("stopping the postgres in %s gently: %w", c.home.dir, err)
	}
	c.server = nil
	c.cfg.Logger.Debug("postgres stopped", "dir", c.home.dir)
	return err
}

// discard gives the directory up; nothing runs in it.
func (c *Cluster) discard() {
	if c.socket != "" {
		_ = os.RemoveAll(c.socket) // gone already unless the server was killed
		_ = os.Remove(c.home.socketNote())
	}
	if c.cfg.Ephemeral {
		_ = os.RemoveAll(c.home.base)
		_ = os.RemoveAll(c.home.dir)
	}
	c.home.close()
}
