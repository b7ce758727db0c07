// Package devpgtest gives tests a real Postgres: a database of their own each, cheap enough that every test has one.
//
// A test binary starts one cluster, on first use, from a golden data directory that lasts between runs and already holds the
// migrated template database; a test's database is a copy of that template. The golden directory is cached under the version of
// Postgres and the key of the template, and built under a file lock by whoever comes first. The cluster ends with the process,
// however that ends, and removes its files, so no TestMain is needed.
//
// A machine without Postgres fails the tests, with a text that says how to get one; nothing is skipped.
package devpgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/devpg"
)

const (
	// startTimeout bounds building a golden directory and starting a cluster; on a loaded machine with two cores it takes 5 s.
	startTimeout = 2 * time.Minute

	// queryTimeout bounds making or dropping a database, which takes 20 ms alone.
	queryTimeout = time.Minute
)

// Template says what a new database holds.
type Template struct {
	Key     string                                      // changes whenever Migrate would do something else: a hash of the migrations
	Migrate func(ctx context.Context, url string) error // fills the empty database at url; nil leaves it empty
}

// clusters holds the running cluster of this process for each key: a string to a func() (*devpg.Cluster, error). It is the one
// variable of the package, because the cluster is shared by tests that know nothing of each other.
var clusters sync.Map

// NewDatabase returns the URL of a new database that is a copy of the template. It is dropped when the test ends, together with
// the sessions that are still on it.
func NewDatabase(tb testing.TB, template Template) string {
	tb.Helper()
	start := func() (*devpg.Cluster, error) {
		return startFrom(template, devpg.Config{Settings: map[string]string{"synchronous_commit": "off"}})
	}
	shared, _ := clusters.LoadOrStore(template.Key, sync.OnceValues(start))
	cluster, err := shared.(func() (*devpg.Cluster, error))()
	if err != nil {
		tb.Fatalf("starting the Postgres of the tests: %v", err)
	}
	name := "test_" + strings.ToLower(rand.Text())
	create := fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s STRATEGY file_copy", name, templateDatabase)
	if err := execute(cluster, create); err != nil {
		tb.Fatalf("making a database: %v", err)
	}
	tb.Cleanup(func() {
		if err := execute(cluster, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			tb.Errorf("dropping the test's database: %v", err)
		}
	})
	return cluster.URLFor(name)
}

// Cluster returns a cluster of the test's own with an empty database, for tests that restart or kill the server: what is
// committed there survives both. It is stopped and removed when the test ends.
func Cluster(tb testing.TB) *devpg.Cluster {
	tb.Helper()
	return ClusterOf(tb, Template{Key: "empty"})
}

// ClusterOf returns a cluster as Cluster does, whose database holds what the template says. It costs no migration, because the cluster is
// a copy of the golden directory.
func ClusterOf(tb testing.TB, template Template) *devpg.Cluster {
	tb.Helper()
	cluster, err := startFrom(template, devpg.Config{Database: templateDatabase})
	if err != nil {
		tb.Fatalf("starting a Postgres for the test: %v", err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), queryTimeout)
		defer cancel()
		if err := cluster.Stop(ctx); err != nil {
			tb.Errorf("stopping the test's Postgres: %v", err)
		}
	})
	return cluster
}

// Dir returns an empty directory that can hold the data of a cluster also when the tests run as root: the account that the
// server then runs as cannot enter what testing.TB.TempDir returns. It is removed when the test ends: a server whose parent was killed
// notices that by itself, and may write until then.
func Dir(tb testing.TB) string {
	tb.Helper()
	dir, err := devpg.MkdirTemp()
	if err != nil {
		tb.Fatalf("making a directory for Postgres: %v", err)
	}
	tb.Cleanup(func() {
		again := time.NewTicker(100 * time.Millisecond)
		defer again.Stop()
		err := os.RemoveAll(dir)
		for deadline := time.Now().Add(queryTimeout); err != nil && time.Now().Before(deadline); err = os.RemoveAll(dir) {
			<-again.C
		}
		if err != nil {
			tb.Errorf("removing the directory of Postgres: %v", err)
		}
	})
	return dir
}

// startFrom starts an ephemeral cluster as a copy of the template's golden directory.
func startFrom(template Template, cfg devpg.Config) (*devpg.Cluster, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	seed, release, err := golden(ctx, template)
	if err != nil {
		return nil, err
	}
	defer release()
	dir, err := devpg.MkdirTemp()
	if err != nil {
		return nil, err
	}
	cfg.Dir, cfg.Ephemeral, cfg.Seed = dir, true, seed
	return devpg.Start(ctx, cfg)
}

// execute runs one statement that concerns whole databases.
func execute(cluster *devpg.Cluster, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), queryTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, cluster.URLFor("postgres"))
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	return errors.Join(err, conn.Close(ctx))
}
