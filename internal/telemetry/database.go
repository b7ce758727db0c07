package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// readTimeout bounds one look at the database, far below the ten seconds that a scrape may usually take.
	readTimeout = 2 * time.Second
	// readLife is how long one look answers every scrape: several scrapers, or a nervous one, cost the database no more than one.
	readLife = 5 * time.Second
)

// DatabaseState is what metrics tell of the database. Durations are of the database's clock.
type DatabaseState struct {
	Due            int64            // endpoints that could be claimed and are not
	OldestDue      time.Duration    // for how long the one of these that was planned first has waited; zero: there is none
	Workers        map[string]int64 // by state: one of active, draining, silent and inactive
	OldestSnapshot time.Duration    // age of the oldest transaction that keeps vacuum from its work; zero: there is none
	SnapshotHolder SnapshotHolder   // the session of that transaction; the zero value: there is none
}

// DatabaseReader reads the state of the database.
type DatabaseReader interface {
	// ReadDatabase reads within the time that ctx gives it.
	ReadDatabase(ctx context.Context) (DatabaseState, error)
}

// Database tells of the database whenever it is scraped. While the database does not answer it tells just that, so that what it told
// before goes stale instead of being believed. A scrape waits for the database for 2 s at most, and asks it once in 5 s.
type Database struct {
	reader DatabaseReader
	logger *slog.Logger

	up, due, oldestDue, workers, oldestSnapshot *prometheus.Desc

	mu      sync.Mutex // held while the database is asked: scrapes at one time share the answer
	state   DatabaseState
	err     error
	taken   time.Time // zero: nothing has been read
	holders snapshotLog
}

var _ prometheus.Collector = (*Database)(nil)

// NewDatabase returns a collector that asks nothing until it is scraped.
func NewDatabase(reader DatabaseReader, logger *slog.Logger) *Database {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &Database{
		reader: reader,
		logger: logger.With("component", "telemetry"),
		up: desc("rubato_database_up",
			"1 where the database answered the last look at it; while it is 0, the other metrics read from it are absent."),
		due: desc("rubato_schedule_due",
			"Endpoints that are due and that nobody has claimed, counted up to 10000."),
		oldestDue: desc("rubato_schedule_oldest_due_seconds",
			"How long ago the endpoint was planned that has waited longest to be claimed; 0 where none waits."),
		workers: desc("rubato_workers",
			"Workers by state; silent ones have told nothing for 6 s and never said goodbye.", "state"),
		oldestSnapshot: desc("rubato_database_oldest_snapshot_seconds",
			"Age of the oldest transaction in the database that keeps vacuum from removing old rows."),
	}
}

// Describe implements prometheus.Collector.
func (d *Database) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{d.up, d.due, d.oldestDue, d.workers, d.oldestSnapshot} {
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
}

// read returns the last look at the database, or looks anew where that one is over.
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
	if d.err != nil && before == nil { // Told once, not at every scrape.
		d.logger.Warn("the database cannot be read for metrics", "error", d.err)
	}
	if d.err == nil {
		d.holders.report(d.logger, d.state)
	}
	return d.state, d.err
}
