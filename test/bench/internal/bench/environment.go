package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"rubato/internal/devpg"
)

// Host configures the environment of every bench.
type Host struct {
	// Program is the path of this program, which all processes are started from.
	Program string
	// Dir is the parent of Postgres's data directory; empty: the directory for temporary files.
	Dir string
	// Settings are additional NAME=value settings of workers and API server.
	Settings []string
	// Profiles is the directory for CPU profiles of the workers; empty: none.
	Profiles string
	Progress *Progress
}

// environment is the environment that all measurements of a bench share: one Postgres and one sink.
type environment struct {
	Host
	cluster   *devpg.Cluster
	admin     *pgxpool.Pool // to the database postgres
	sink      remoteSink
	databases int
	dir       string
}

// serverSettings are the settings of the private Postgres that differ from the defaults. They hold
// for every contender. Durability stays at the defaults: fsync and synchronous commit are on.
func serverSettings() map[string]string {
	return map[string]string{
		"fsync":                  "on",
		"synchronous_commit":     "on",
		"full_page_writes":       "on",
		"shared_buffers":         "512MB",
		"max_wal_size":           "4GB", // prevents checkpoints during a round
		"track_commit_timestamp": "on",  // dates the commit of the last record
	}
}

// openLab starts Postgres and the sink.
func openLab(ctx context.Context, h Host) (_ *environment, err error) {
	l := &environment{Host: h}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close(context.WithoutCancel(ctx)))
		}
	}()
	if l.dir, err = os.MkdirTemp(h.Dir, "rubato-bench-"); err != nil {
		return nil, fmt.Errorf("making a directory for the data: %w", err)
	}
	if err := os.Chmod(l.dir, 0o711); err != nil { //nolint:gosec // Postgres runs as another user and must enter.
		return nil, fmt.Errorf("opening the directory for the data: %w", err)
	}
	h.Progress.Say("starting a durable Postgres in %s", l.dir)
	l.cluster, err = devpg.Start(ctx, devpg.Config{
		Dir:      filepath.Join(l.dir, "postgres"),
		Durable:  true,
		Settings: serverSettings(),
	})
	if err != nil {
		return nil, err
	}
	if l.admin, err = pgxpool.New(ctx, l.cluster.URLFor("postgres")); err != nil {
		return nil, fmt.Errorf("connecting to the private Postgres: %w", err)
	}
	sink, err := l.start(ctx, roleSink, nil, nil)
	if err != nil {
		return nil, err
	}
	l.sink = remoteSink{sink}
	return l, nil
}

// start starts a process in a role with settings.
func (l *environment) start(ctx context.Context, role string, task any, env []string) (*process, error) {
	return startProcess(ctx, command{
		name: role,
		path: l.Program,
		args: []string{Process, role},
		env:  env,
		task: task,
	})
}

// close stops all processes and removes the data.
func (l *environment) close(ctx context.Context) error {
	var errs []error
	if l.sink.process != nil {
		errs = append(errs, l.sink.stop())
	}
	if l.admin != nil {
		l.admin.Close()
	}
	if l.cluster != nil {
		ctx, cancel := context.WithTimeout(ctx, stopPatience)
		defer cancel()
		errs = append(errs, l.cluster.Stop(ctx))
	}
	if l.dir != "" {
		errs = append(errs, os.RemoveAll(l.dir))
	}
	return errors.Join(errs...)
}

// database is the database of one contender in one round.
type database struct {
	lab  *environment
	name string
	pool *pgxpool.Pool // connections of the bench itself
}

// newDatabase creates an empty database.
func (l *environment) newDatabase(ctx context.Context) (*database, error) {
	l.databases++
	d := &database{lab: l, name: fmt.Sprintf("round_%d", l.databases)}
	if _, err := l.admin.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{d.name}.Sanitize()); err != nil {
		return nil, fmt.Errorf("making the database %s: %w", d.name, err)
	}
	pool, err := pgxpool.New(ctx, d.url())
	if err != nil {
		return nil, fmt.Errorf("connecting to the database %s: %w", d.name, err)
	}
	d.pool = pool
	return d, nil
}

func (d *database) url() string { return d.lab.cluster.URLFor(d.name) }

// settle vacuums, analyzes and checkpoints a freshly filled database, so that every measurement
// starts from the same state and does not pay for its preparation.
func (d *database) settle(ctx context.Context) error {
	for _, sql := range []string{"VACUUM (ANALYZE)", "CHECKPOINT"} {
		if _, err := d.pool.Exec(ctx, sql); err != nil {
			return fmt.Errorf("settling the database %s: %w", d.name, err)
		}
	}
	return nil
}

// drop removes the database, so that the next round finds the disk and the caches in the same
// state.
func (d *database) drop(ctx context.Context) error {
	d.pool.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startPatience)
	defer cancel()
	if _, err := d.lab.admin.Exec(ctx, "DROP DATABASE "+pgx.Identifier{d.name}.Sanitize()+" WITH (FORCE)"); err != nil {
		return fmt.Errorf("dropping the database %s: %w", d.name, err)
	}
	return nil
}

// records locates the committed results of a contender.
type records struct {
	table string
	where string // condition on the rows of the workload: due from $1 and before $2
}

// count returns the number of committed results.
func (d *database) count(ctx context.Context, r records, w workload) (n int, err error) {
	err = d.pool.QueryRow(ctx, "SELECT count(*) FROM "+r.table+" WHERE "+r.where, w.Due, w.end()).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("counting what is done in %s: %w", r.table, err)
	}
	return n, nil
}

// lastCommit returns the time of the last commit; zero: none.
func (d *database) lastCommit(ctx context.Context, r records, w workload) (time.Time, error) {
	var at *time.Time
	err := d.pool.QueryRow(ctx, "SELECT max(pg_xact_commit_timestamp(xmin)) FROM "+r.table+" WHERE "+r.where, w.Due, w.end()).Scan(&at)
	if err != nil {
		return time.Time{}, fmt.Errorf("asking when %s was last written: %w", r.table, err)
	}
	if at == nil {
		return time.Time{}, nil
	}
	return *at, nil
}

// Machine describes the hardware of a measurement.
type Machine struct {
	CPU       string `json:"cpu"`
	Cores     int    `json:"cores"`
	MemoryMiB int64  `json:"memoryMiB"`
	System    string `json:"system"`
	Go        string `json:"go"`
	Postgres  string `json:"postgres"`
}

func (l *environment) machine(ctx context.Context) (Machine, error) {
	m := Machine{
		Cores:  runtime.NumCPU(),
		System: runtime.GOOS + "/" + runtime.GOARCH,
		Go:     runtime.Version(),
	}
	if err := l.admin.QueryRow(ctx, "SHOW server_version").Scan(&m.Postgres); err != nil {
		return m, fmt.Errorf("asking for the version of Postgres: %w", err)
	}
	m.CPU = firstLine("/proc/cpuinfo", "model name")
	if total := firstLine("/proc/meminfo", "MemTotal"); total != "" {
		_, _ = fmt.Sscan(total, &m.MemoryMiB) // Stays zero if it is unreadable.
		m.MemoryMiB >>= 10
	}
	return m, nil
}

// firstLine returns the value of a field in a /proc file; empty if it is missing.
func firstLine(file, name string) string {
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		if field, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(field) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// environ returns the settings of a program of the product on a database.
func (l *environment) environ(d *database, more map[string]string) []string {
	env := map[string]string{
		"DATABASE_URL": d.url(), "RUBATO_ADMIN_LISTEN": loopback, "RUBATO_LISTEN": loopback,
		"RUBATO_EGRESS_ALLOW": "127.0.0.0/8", "RUBATO_LOG_LEVEL": "warn", "RUBATO_LOG_FORMAT": "text",
		"RUBATO_SHUTDOWN_GRACE": "2s", // requests that hang at the end do not matter
		"RUBATO_API_RATE":       "0",  // no limit, because one key registers everything
		// All targets of a bench are on one host, so the slots must be the only bound.
		"RUBATO_EGRESS_MAX_PER_HOST": "10000",
	}
	maps.Copy(env, more)
	for _, pair := range l.Settings {
		name, value, _ := strings.Cut(pair, "=")
		env[name] = value
	}
	list := make([]string, 0, len(env))
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	return list
}
