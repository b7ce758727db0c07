package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// readTimeout bounds one read of the database. It is far below the usual timeout of a scrape,
	// which is ten seconds.
	readTimeout = 2 * time.Second
	// readLife is how long a result is cached, so that many scrapers cause no more queries than
	// one.
	readLife = 5 * time.Second
)

// DatabaseState is the state of the database for metrics. Durations are by the database's clock.
type DatabaseState struct {
	// Due is the number of due endpoints that no worker has claimed.
	Due int64
	// OldestDue is the time since the planned time of the oldest of these; zero if there are none.
	OldestDue time.Duration
	// Workers is the number of workers by state: active, draining, silent or inactive.
	Workers map[string]int64
	// Hosts is the number of hosts by condition: open, half_open or limited.
	Hosts map[string]int64
	// DeadLetters is the number of open dead letters.
	DeadLetters int64
	// OldestSnapshot is the age of the oldest transaction that keeps vacuum from removing dead
	// rows; zero if there is none.
	OldestSnapshot time.Duration
	// SnapshotHolder is the session of that transaction.
	SnapshotHolder SnapshotHolder
}

// DatabaseReader reads the state of the database.
type DatabaseReader interface {
	// ReadDatabase returns before the deadline of ctx.
	ReadDatabase(ctx context.Context) (DatabaseState, error)
}

// Database is a collector of the database's state. If the database does not answer, only
// rubato_database_up is exposed, so that old values become stale. A scrape waits at most 2 s, and
// results are cached for 5 s.
type Database struct {
	reader DatabaseReader
	logger *slog.Logger

	up, due, oldestDue, workers, hosts, deadLetters, oldestSnapshot *prometheus.Desc

	// mu guards the fields below. It is held during a read, so that concurrent scrapes share it.
	mu    sync.Mutex
	state DatabaseState
	err   error
	// taken is when state and err were read; zero for never.
	taken   time.Time
	holders snapshotLog
}

var _ prometheus.Collector = (*Database)(nil)

// NewDatabase returns a collector. It reads the database on scrapes only.
func NewDatabase(reader DatabaseReader, logger *slog.Logger) *Database {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &Database{
		reader: reader,
		logger: logger.With("component", "telemetry"),
		up: desc("rubato_database_up",
			"1 if the last read of the database succeeded; while it is 0, the other metrics of the database are absent."),
		due: desc("rubato_schedule_due",
			"Due endpoints that no worker has claimed, counted up to 10000."),
		oldestDue: desc("rubato_schedule_oldest_due_seconds",
			"Time since the planned time of the oldest due endpoint that is not claimed; 0 if there is none."),
		workers: desc("rubato_workers",
			"Workers by state; silent ones have sent no heartbeat for 6 s and have not signed off.", "state"),
		hosts: desc("rubato_hosts",
			"Target hosts whose circuit breaker is open or half-open, and those with an adaptive limit, each counted up to 10000.", "state"),
		deadLetters: desc("rubato_dead_letters_open",
			"Dead letters that were neither replayed nor discarded, counted up to 10000."),
		oldestSnapshot: desc("rubato_database_oldest_snapshot_seconds",
			"Age of the oldest transaction in the database that keeps vacuum from removing old rows."),
	}
}

// Describe implements prometheus.Collector.
func (d *Database) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{d.up, d.due, d.oldestDue, d.workers, d.hosts, d.deadLetters, d.oldestSnapshot} {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (d *Database) Collect(to chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	state, err := d.read()
	if err != nil {
		gauge(d.up, 0)
		return
	}
	gauge(d.up, 1)
	gauge(d.due, float64(state.Due))
	gauge(d.oldestDue, state.OldestDue.Seconds())
	gauge(d.oldestSnapshot, state.OldestSnapshot.Seconds())
	for _, name := range []string{"active", "draining", "silent", "inactive"} {
		gauge(d.workers, float64(state.Workers[name]), name)
	}
	for _, name := range []string{"open", "half_open", "limited"} {
		gauge(d.hosts, float64(state.Hosts[name]), name)
	}
	gauge(d.deadLetters, float64(state.DeadLetters))
}

// read returns the cached state, or reads it again if the cache has expired.
func (d *Database) read() (DatabaseState, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.taken.IsZero() && time.Since(d.taken) < readLife {
		return d.state, d.err
	}
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	before := d.err
	d.state, d.err = d.reader.ReadDatabase(ctx)
	d.taken = time.Now()
	// Only the first of several failures is logged.
	if d.err != nil && before == nil {
		d.logger.Warn("reading the database for metrics failed", "error", d.err)
	}
	if d.err == nil {
		d.holders.report(d.logger, d.state)
	}
	return d.state, d.err
}
