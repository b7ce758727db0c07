package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"rubato/internal/app"
	"rubato/internal/app/apiserver"
	"rubato/internal/config"
)

// Process is the first argument of a process that a bench starts from its own program. The second
// is the name of a [Role].
const Process = "bench-process"

// The roles of the processes that a bench starts.
const (
	roleAPI     = "api"
	roleWorker  = "worker"
	rolePlanner = "planner"
	roleSink    = "sink"
	roleIdeal   = "ideal"
	roleFenced  = "fenced"
	roleBare    = "bare"
)

// processMessage is a line of JSON that a process writes to standard output for its bench.
type processMessage struct {
	Serves  app.Addresses `json:"serves,omitzero"`
	Target  string        `json:"target,omitempty"`  // of a sink: base URL of requests
	Control string        `json:"control,omitempty"` // of a sink: base URL of the control API
}

// Role is a process of a bench. It ends with its standard input, which closes when the bench stops
// it or exits itself.
type Role struct {
	Name    string
	Environ []string
	Stdin   io.Reader // the task as one line of JSON, except for programs of the product
	Stdout  io.Writer // news, one JSON object per line
	Stderr  io.Writer // the log
}

// Run runs the role.
func (r Role) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in := bufio.NewReader(r.Stdin)
	task, err := in.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("reading the task of the %s: %w", r.Name, err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	return app.Interrupted(ctx, r.play(ctx, task))
}

func (r Role) play(ctx context.Context, task []byte) error {
	switch r.Name {
	case roleAPI, roleWorker, rolePlanner:
		return r.program(ctx)
	case roleSink:
		return serveSink(ctx, r.tell)
	case roleIdeal:
		return idealFrom(ctx, task, r.tell)
	case roleFenced:
		return fencedFrom(ctx, task, r)
	case roleBare:
		return bareFrom(ctx, task, r.tell)
	default:
		return fmt.Errorf("no process of a bench is called %q", r.Name)
	}
}

// program runs a program of the product like its daemon.
func (r Role) program(ctx context.Context) error {
	settings, err := config.Load(r.Environ, config.Program{Required: []string{config.DatabaseURL}})
	if err != nil {
		return err
	}
	logger := app.NewLogger(r.Stderr, settings.Log)
	started := func(a app.Addresses) { r.report(logger, a) }
	switch r.Name {
	case roleAPI:
		return apiserver.API{
			Settings: settings,
			Logger:   logger,
			Started:  started,
		}.Run(ctx)
	case rolePlanner:
		return app.Planner{
			Settings: settings,
			Logger:   logger,
			Started:  started,
		}.Run(ctx)
	default:
		return app.Worker{
			Settings: settings,
			Logger:   logger,
			Started:  started,
		}.Run(ctx)
	}
}

func (r Role) report(logger *slog.Logger, a app.Addresses) {
	if err := r.tell(processMessage{Serves: a}); err != nil {
		logger.Error("the bench does not listen", "error", err)
	}
}

func (r Role) tell(n processMessage) error {
	line, err := json.Marshal(n)
	if err == nil {
		_, err = r.Stdout.Write(append(line, '\n'))
	}
	if err != nil {
		return fmt.Errorf("telling the bench: %w", err)
	}
	return nil
}

// taskOf reads a task.
func taskOf[T any](text []byte) (task T, err error) {
	if err := json.Unmarshal(text, &task); err != nil {
		return task, errors.Join(errors.New("reading the task of a process"), err)
	}
	return task, nil
}
