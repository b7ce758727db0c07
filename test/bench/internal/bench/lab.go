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

// Host is where and how a bench runs, whatever it measures.
type Host struct {
	Program  string   // path of this program, which every process is started from
	Dir      string   // where the data of Postgres goes; empty: among temporary files
	Settings []string // NAME=value settings of the product that workers and API get beside the bench's own
	Profiles string   // directory for the workers' CPU profiles; empty: none are taken
	Progress *Progress
}

// lab is what everything that is measured shares: one Postgres and one sink.
type lab struct {
	Host
	cluster   *devpg.Cluster
	admin     *pgxpool.Pool // of the database postgres
	sink      remoteSink
	databases int
	dir       string
}

// serverSettings are those of the private Postgres beside its defaults. Everything that is measured runs under them. Durability is
// left as Postgres has it: fsync and synchronous commit are on.
func serverSettings() map[string]string {
	return map[string]string{
		"fsync":                  "on",
		"synchronous_commit":     "on",
		"full_page_writes":       "on",
		"shared_buffers":         "512MB",
		"max_wal_size":           "4GB", // no checkpoint for lack of log in the middle of a round
		"track_commit_timestamp": "on",  // tells when the last record was committed
	}
}

// openLab starts Postgres and the sink.
func openLab(ctx context.Context, h Host) (_ *lab, err error) {
	l := &lab{Host: h}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close(context.WithoutCancel(ctx)))
		}
	}()
	if l.dir, err = os.MkdirTemp(h.Dir, "rubato-bench-"); err != nil {
		return nil, fmt.Errorf("making a directory for the data: %w", err)
	}
	if err := os.Chmod(l.dir, 0o711); err != nil { //nolint:gosec // The account that Postgres runs as must be able to enter.
		return nil, fmt.Errorf("opening the directory for the data: %w", err)
	}
	h.Progress.Say("starting a durable Postgres in %s", l.dir)
	l.cluster, err = devpg.Start(ctx, devpg.Config{Dir: filepath.Join(l.dir, "postgres"), Durable: true, Settings: serverSettings()})
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

// start starts a process with a role. env are settings.
func (l *lab) start(ctx context.Context, role string, task any, env []string) (*process, error) {
	return startProcess(ctx, command{name: role, path: l.Program, args: []string{Process, role}, env: env, task: task})
}

// close ends everything and removes the data.
func (l *lab) close(ctx context.Context) error {
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

// database is one database of the lab, for one round of one contender.
type database struct {
	lab  *lab
	name string
	pool *pgxpool.Pool // the bench's own look at it
}

// newDatabase makes an empty database.
func (l *lab) newDatabase(ctx context.Context) (*database, error) {
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

// settle brings a database that was just filled to rest: statistics are fresh, and nothing waits to be written. What is measured
// begins from the same state, and does not pay for its preparation.
func (d *database) settle(ctx context.Context) error {
	for _, sql := range []string{"VACUUM (ANALYZE)", "CHECKPOINT"} {
		if _, err := d.pool.Exec(ctx, sql); err != nil {
			return fmt.Errorf("settling the database %s: %w", d.name, err)
		}
	}
	return nil
}

// drop removes the database: the next round must find the disk and the caches as this one did.
func (d *database) drop(ctx context.Context) error {
	d.pool.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startPatience)
	defer cancel()
	if _, err := d.lab.admin.Exec(ctx, "DROP DATABASE "+pgx.Identifier{d.name}.Sanitize()+" WITH (FORCE)"); err != nil {
		return fmt.Errorf("dropping the database %s: %w", d.name, err)
	}
	return nil
}

// records says where a contender writes what it has done.
type records struct {
	table string
	where string // which of its rows are of the workload, from $1 on and before $2
}

// count returns how many records are committed.
func (d *database) count(ctx context.Context, r records, w workload) (n int, err error) {
	err = d.pool.QueryRow(ctx, "SELECT count(*) FROM "+r.table+" WHERE "+r.where, w.Due, w.end()).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("counting what is done in %s: %w", r.table, err)
	}
	return n, nil
}

// lastCommit returns when the last record was committed, the zero time where there is none.
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

// Machine says what numbers were measured on.
type Machine struct {
	CPU       string `json:"cpu"`
	Cores     int    `json:"cores"`
	MemoryMiB int64  `json:"memoryMiB"`
	System    string `json:"system"`
	Go        string `json:"go"`
	Postgres  string `json:"postgres"`
}

func (l *lab) machine(ctx context.Context) (Machine, error) {
	m := Machine{Cores: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version()}
	if err := l.admin.QueryRow(ctx, "SHOW server_version").Scan(&m.Postgres); err != nil {
		return m, fmt.Errorf("asking for the version of Postgres: %w", err)
	}
	m.CPU = firstLine("/proc/cpuinfo", "model name")
	if total := firstLine("/proc/meminfo", "MemTotal"); total != "" {
		_, _ = fmt.Sscan(total, &m.MemoryMiB) // Nothing is told where nothing can be read.
		m.MemoryMiB >>= 10
	}
	return m, nil
}

// firstLine returns what follows a name and a colon in a file of /proc, empty where there is none.
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
func (l *lab) environ(d *database, more map[string]string) []string {
	env := map[string]string{
		"DATABASE_URL": d.url(), "RUBATO_ADMIN_LISTEN": loopback, "RUBATO_LISTEN": loopback,
		"RUBATO_EGRESS_ALLOW": "127.0.0.0/8", "RUBATO_LOG_LEVEL": "warn", "RUBATO_LOG_FORMAT": "text",
		"RUBATO_SHUTDOWN_GRACE": "2s", // what hangs at the end is of no interest
		"RUBATO_API_RATE":       "0",  // everything is registered with one key
		// One host stands for all the targets of a bench, and slots are to be their only bound.
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
