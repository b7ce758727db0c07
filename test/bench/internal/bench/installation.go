package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"rubato/client"
	"rubato/internal/config"
	"rubato/internal/store/pg"
)

// once is an interval that is too long for a second run during a measurement.
const once = 300 * 24 * time.Hour

// installation is Rubato with its own database: an API server and workers.
type installation struct {
	db       *database
	settings config.Config
	environ  []string
	api      *process
	workers  []*process
	name     string // of the contender
}

// install creates a database, migrates it and starts the API server.
func (l *environment) install(ctx context.Context, more map[string]string) (_ *installation, err error) {
	db, err := l.newDatabase(ctx)
	if err != nil {
		return nil, err
	}
	in := &installation{db: db}
	defer func() {
		if err != nil {
			err = errors.Join(err, in.close(ctx))
		}
	}()
	in.environ = l.environ(db, more)
	if in.settings, err = config.Load(in.environ, config.Program{}); err != nil {
		return nil, err
	}
	if _, err := pg.MigrateUp(ctx, db.url()); err != nil {
		return nil, fmt.Errorf("preparing the database %s: %w", db.name, err)
	}
	in.api, err = l.start(ctx, roleAPI, nil, append(in.environ, "RUBATO_BOOTSTRAP_API_KEY="+adminKey))
	return in, err
}

// registrar returns a client that registers endpoints.
func (in *installation) registrar(conns int) (*registrar, error) {
	return newRegistrar(in.api.news.Serves.API, adminKey, conns, in.db.lab.Progress)
}

// startWorkers starts workers and waits until they claim.
func (in *installation) startWorkers(ctx context.Context, n int) error {
	for range n {
		w, err := in.db.lab.start(ctx, roleWorker, nil, in.environ)
		if err != nil {
			return err
		}
		in.workers = append(in.workers, w)
	}
	for _, w := range in.workers {
		if err := poll(ctx, startPatience, func() (bool, error) {
			_, err := fetch(ctx, "GET", w.news.Serves.Admin+"/readyz")
			return err == nil, w.alive()
		}); err != nil {
			return fmt.Errorf("waiting for a worker to claim: %w", err)
		}
	}
	return nil
}

// startFenced starts a fenced pipeline instead of workers.
func (in *installation) startFenced(ctx context.Context, callers int) error {
	p, err := in.db.lab.start(ctx, roleFenced, task{Callers: callers}, in.environ)
	if err != nil {
		return err
	}
	in.workers = append(in.workers, p)
	return nil
}

// failures counts the failed runs of a workload by status and reason. An overloaded machine shows
// here, because a worker does not send a request after its deadline.
func (d *database) failures(ctx context.Context, w workload) (map[string]int, error) {
	rows, err := d.pool.Query(ctx, `
		SELECT status || ' ' || reason_code, count(*)::int FROM runs
		WHERE status <> 'succeeded' AND scheduled_for >= $1 AND scheduled_for < $2 GROUP BY 1`, w.Due, w.end())
	if err != nil {
		return nil, fmt.Errorf("asking what failed: %w", err)
	}
	counts := map[string]int{}
	var reason string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&reason, &n}, func() error { counts[reason] = n; return nil })
	if err != nil {
		return nil, fmt.Errorf("asking what failed: %w", err)
	}
	return counts, nil
}

// parts returns the processes whose CPU time counts. The API server is idle while runs are
// measured, so it is left out.
func (in *installation) parts() parts {
	p := in.db.lab.parts()
	p.workers = in.workers
	return p
}

// close stops all processes and drops the database.
func (in *installation) close(ctx context.Context) error {
	var stopping errgroup.Group
	for _, p := range in.workers {
		stopping.Go(p.stop)
	}
	if in.api != nil {
		stopping.Go(in.api.stop)
	}
	return errors.Join(stopping.Wait(), in.db.drop(ctx))
}

// profile takes a CPU profile of each worker over a span, and an allocation profile at its end.
func (in *installation) profile(ctx context.Context, name string, span time.Duration) error {
	dir := in.db.lab.Profiles
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // Profiles are not secret.
		return fmt.Errorf("making the directory for profiles: %w", err)
	}
	var group errgroup.Group
	for n, w := range in.workers {
		group.Go(func() error {
			for kind, query := range map[string]string{"cpu": fmt.Sprintf("profile?seconds=%.0f", max(1, span.Seconds())), "allocs": "allocs"} {
				text, err := fetch(ctx, "GET", w.news.Serves.Admin+"/debug/pprof/"+query)
				if err != nil {
					return fmt.Errorf("taking a profile of a worker: %w", err)
				}
				file := filepath.Join(dir, fmt.Sprintf("%s-worker%d.%s.pprof", name, n+1, kind))
				if err := os.WriteFile(file, text, 0o644); err != nil { //nolint:gosec // Likewise.
					return fmt.Errorf("keeping a profile: %w", err)
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// endpoint returns an endpoint on the sink with a first due time.
func (l *environment) endpoint(group byte, n int, every time.Duration, first time.Time) client.EndpointSpec {
	return client.EndpointSpec{
		Name:               fmt.Sprintf("bench %c %d", group, n),
		URL:                l.sink.target(group, n),
		BaselineIntervalMs: new(every.Milliseconds()),
		StartAt:            &first,
	}
}

// errImpatient is the error of a timeout while waiting for a condition.
var errImpatient = errors.New("it did not happen in time")

// poll calls a condition until it holds. The error is [errImpatient] after the timeout.
func poll(ctx context.Context, patience time.Duration, ask func() (bool, error)) error {
	const pause = 25 * time.Millisecond
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errImpatient)
	defer cancel()
	for {
		done, err := ask()
		if done || err != nil {
			return err
		}
		if !await(ctx, time.Now().Add(pause)) {
			return context.Cause(ctx)
		}
	}
}
