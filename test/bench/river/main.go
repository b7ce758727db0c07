// Command river does the work of `go run ./test/bench` with River, a job queue on the same
// Postgres. It is the peer that Rubato is compared with. It is a separate module, so that Rubato
// does not depend on River.
//
// The first line of standard input is the task as JSON; the command ends with standard input. In
// the mode "fill" it creates River's tables and inserts the jobs, each scheduled at its due time.
// In the mode "work" it works them.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const (
	// maxWorkers is the concurrency of one client, and with it the batch size of a fetch. Large
	// batches are cheap per job.
	maxWorkers = 1000
	// fetchCooldown is the minimum time between fetches, and fetchPoll the maximum.
	fetchCooldown = 5 * time.Millisecond
	fetchPoll     = 20 * time.Millisecond
	// maxConns bounds the connection pool. River uses few connections: one fetches, some complete.
	maxConns = 20
	// fillBatch is the number of jobs per insert statement.
	fillBatch = 5000
)

// task is the request of the bench.
type task struct {
	Mode     string `json:"mode"`
	Database string `json:"database"`
	// Target is the jobs' URL without their number.
	Target  string        `json:"target"`
	Callers int           `json:"callers"`
	Jobs    int           `json:"jobs"`
	Due     time.Time     `json:"due"`
	Span    time.Duration `json:"span"`
}

// dueOf returns the due time of a job.
func (t task) dueOf(n int) time.Time {
	return t.Due.Add(t.Span * time.Duration(n) / time.Duration(t.Jobs)).Truncate(time.Millisecond)
}

// callArgs is a job: one HTTP request.
type callArgs struct {
	N   int       `json:"n"`
	URL string    `json:"url"`
	Due time.Time `json:"due"`
}

// Kind implements River's job interface.
func (callArgs) Kind() string { return "call" }

// callWorker sends the requests.
type callWorker struct {
	river.WorkerDefaults[callArgs]

	client *http.Client
}

// Work sends the request of a job.
func (w *callWorker) Work(ctx context.Context, job *river.Job[callArgs]) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, job.Args.URL, http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Rubato-Run-Id", "job-"+strconv.Itoa(job.Args.N))
	req.Header.Set("Rubato-Scheduled-For", job.Args.Due.UTC().Format("2006-01-02T15:04:05.000Z"))
	res, err := w.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return err
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	in := bufio.NewReader(os.Stdin)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("reading the task: %w", err)
	}
	var t task
	if err := json.Unmarshal(line, &t); err != nil {
		return fmt.Errorf("reading the task: %w", err)
	}
	cfg, err := pgxpool.ParseConfig(t.Database)
	if err != nil {
		return err
	}
	cfg.MaxConns = maxConns
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer pool.Close()
	stop := make(chan struct{})
	go func() { defer close(stop); _, _ = io.Copy(io.Discard, in) }()
	if t.Mode == "fill" {
		err = fill(ctx, pool, t)
	} else {
		err = work(ctx, pool, t, stop)
	}
	return err
}

// ready signals the bench to go on.
func ready() { fmt.Println("{}") }

// fill creates River's tables and inserts the jobs.
func fill(ctx context.Context, pool *pgxpool.Pool, t task) error {
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return fmt.Errorf("making River's tables: %w", err)
	}
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{})
	if err != nil {
		return err
	}
	for from := 0; from < t.Jobs; from += fillBatch {
		var batch []river.InsertManyParams
		for n := from; n < min(from+fillBatch, t.Jobs); n++ {
			batch = append(batch, river.InsertManyParams{
				Args: callArgs{
					N:   n,
					URL: t.Target + strconv.Itoa(n),
					Due: t.dueOf(n),
				},
				InsertOpts: &river.InsertOpts{ScheduledAt: t.dueOf(n)},
			})
		}
		if _, err := client.InsertManyFast(ctx, batch); err != nil {
			return fmt.Errorf("inserting jobs: %w", err)
		}
	}
	ready()
	return nil
}

// work works the jobs until standard input ends.
func work(ctx context.Context, pool *pgxpool.Pool, t task, stop <-chan struct{}) error {
	workers := river.NewWorkers()
	river.AddWorker(workers, &callWorker{client: &http.Client{Transport: &http.Transport{
		MaxIdleConns:        t.Callers,
		MaxIdleConnsPerHost: t.Callers,
		MaxConnsPerHost:     t.Callers,
		DisableCompression:  true,
	}}})
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: maxWorkers}},
		Workers:           workers,
		FetchCooldown:     fetchCooldown,
		FetchPollInterval: fetchPoll,
		Logger:            slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return fmt.Errorf("starting River: %w", err)
	}
	ready()
	<-stop
	ending, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return client.StopAndCancel(ending)
}
