// Package devpgtest gives each test its own Postgres database, cheaply.
//
// A test binary starts one cluster, on first use, from a golden data directory. That directory
// lasts between runs and already holds the migrated template database; a test's database is a copy
// of the template. The golden directory is cached under the version of Postgres and the key of the
// template. A file lock ensures that only one process builds it. The cluster stops with the
// process, even if that is killed, and removes its files, so that no TestMain is needed.
//
// On a machine without Postgres the tests fail with a message that explains how to install it. They
// are never skipped.
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
	// startTimeout bounds building a golden directory and starting a cluster. On a loaded machine
	// with two cores it takes 5 s.
	startTimeout = 2 * time.Minute

	// queryTimeout bounds creating or dropping a database, which takes 20 ms on an idle machine.
	queryTimeout = time.Minute
)

// Template describes the content of a new database.
type Template struct {
	// Key identifies the result of Migrate, for example a hash of the migrations.
	Key string
	// Migrate fills the empty database at url; nil leaves it empty.
	Migrate func(ctx context.Context, url string) error
}

// clusters holds the running cluster of this process for each key: a string to a func()
// (*devpg.Cluster, error). It is a package variable, because independent tests share the clusters.
var clusters sync.Map

// NewDatabase returns the URL of a new database that is a copy of the template. When the test ends,
// the database is dropped and its sessions are terminated.
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

// Cluster returns a private cluster with an empty database, for tests that restart or kill the
// server. Committed data survives both. The cluster is stopped and removed when the test ends.
func Cluster(tb testing.TB) *devpg.Cluster {
	tb.Helper()
	return ClusterOf(tb, Template{Key: "empty"})
}

// ClusterOf returns a private cluster as Cluster does, with a copy of the template as its database.
// It runs no migration, because it copies the golden directory.
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

// Dir returns an empty directory for the data of a cluster. Tests that run as root need it, because
// the server's account cannot enter the directory of testing.TB.TempDir. It is removed when the
// test ends. The removal is retried, because a server may write for a moment after its parent was
// killed.
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

// execute runs one statement on the maintenance database, such as CREATE DATABASE.
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
