package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"rubato/client"
)

// workersCmd is `rubato workers`.
type workersCmd struct {
	List   workersListCmd   `cmd:"" default:"withargs" help:"Print workers, newest first."`
	Drain  workersDrainCmd  `cmd:"" help:"Order a worker to claim nothing more, before its process is stopped."`
	Resume workersResumeCmd `cmd:"" help:"Withdraw the order to drain."`
}

type (
	workersListCmd struct{ serverFlag }

	workersDrainCmd struct {
		serverFlag
		Worker string        `arg:"" help:"Worker ID."`
		Wait   bool          `help:"Wait until the worker has finished its runs."`
		Within time.Duration `default:"10m" help:"Maximum duration of --wait."`
	}

	workersResumeCmd struct {
		serverFlag
		Worker string `arg:"" help:"Worker ID."`
	}
)

// Run prints the workers.
func (cmd *workersListCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.ListWorkersWithResponse(ctx))
	if err != nil {
		return err
	}
	return list(s, raw, []string{"NAME", "STATE", "BUSY", "SINCE", "HEARTBEAT", "VERSION", "ID"}, func(w client.Worker) []string {
		return []string{
			w.Name, string(w.State), fmt.Sprintf("%d of %d", w.Busy, w.Slots), instant(&w.StartedAt), instant(&w.HeartbeatAt), w.Version, w.ID,
		}
	})
}

// Run orders the worker to drain.
func (cmd *workersDrainCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.DrainWorkerWithResponse(ctx, cmd.Worker))
	if err != nil {
		return err
	}
	if cmd.Wait {
		if raw, err = cmd.await(ctx, r, raw); err != nil {
			return err
		}
	}
	return show(s, raw, s.sayWorker)
}

// workerPoll is the interval at which a command reads the state of a worker.
const workerPoll = 250 * time.Millisecond

// await returns the worker once it is drained or has stopped.
func (cmd *workersDrainCmd) await(ctx context.Context, r *remote, raw json.RawMessage) (json.RawMessage, error) {
	limit := time.After(cmd.Within)
	for {
		var w client.Worker
		if err := decode(raw, &w); err != nil {
			return nil, err
		}
		switch w.State {
		case client.WorkerStateDrained, client.WorkerStateInactive:
			return raw, nil
		case client.WorkerStateSilent:
			return nil, fmt.Errorf("wait for worker %s: it sends no heartbeats; other workers take over its claims", w.ID)
		case client.WorkerStateActive, client.WorkerStateDraining:
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-limit:
			return nil, fmt.Errorf("wait for worker %s: it still has %d runs after %s; it stays under the order to drain", w.ID, w.Busy, cmd.Within)
		case <-time.After(workerPoll):
		}
		// The order is repeated, because it returns the state and changes nothing.
		again, err := r.read(r.api.DrainWorkerWithResponse(ctx, cmd.Worker))
		if err != nil {
			return nil, err
		}
		raw = again
	}
}

// Run withdraws the order.
func (cmd *workersResumeCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.ResumeWorkerWithResponse(ctx, cmd.Worker))
	if err != nil {
		return err
	}
	return show(s, raw, s.sayWorker)
}

func (s *session) sayWorker(w client.Worker) error {
	return s.say("worker %s (%s) is %s with %d runs", w.ID, w.Name, w.State, w.Busy)
}
