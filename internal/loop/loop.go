// Package loop keeps the loops of a program running. A loop that panics is counted, its stack is
// logged, and it starts again after a backoff: exponential with jitter, and bounded.
package loop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Name is the name of a loop in metrics and logs.
type Name string

// Names of loops.
const (
	Claim     Name = "claim"
	Start     Name = "start"
	Finish    Name = "finish"
	Heartbeat Name = "heartbeat"
	Presence  Name = "presence"
	// Space probes the disk space of the database.
	Space    Name = "space"
	Cancel   Name = "cancel"
	Breakers Name = "breakers"
	Backlog  Name = "backlog"
	Slots    Name = "slots"
	// StatusPolls asks the status URLs of suspended runs.
	StatusPolls Name = "status_polls"
	Sweep       Name = "sweep"
	Courier     Name = "courier"
	Listener    Name = "listener"
	// Allowances refreshes the egress allow lists of tenants.
	Allowances Name = "allowances"
	// Budgets counts runs against shared budgets and steps their prices.
	Budgets Name = "budgets"
	// Secrets records the last use of secrets.
	Secrets Name = "secrets"
	// Chains advances the runs of chains.
	Chains  Name = "chains"
	Planner Name = "planner"
	// Answers deletes expired responses to requests with an Idempotency-Key.
	Answers Name = "answers"
	Health  Name = "health"
	// Heap tunes the garbage collector.
	Heap Name = "heap"
)

// Names returns every loop.
func Names() []Name {
	return []Name{
		Claim, Start, Finish, Heartbeat, Presence, Space, Cancel, Breakers, Backlog, Slots, StatusPolls, Sweep, Courier, Listener, Allowances, Budgets, Secrets, Chains,
		Planner, Answers, Health, Heap,
	}
}

const (
	// minBackoff is the wait after the first panic. It doubles up to maxBackoff.
	minBackoff = 100 * time.Millisecond
	// maxBackoff is half of the time without a heartbeat after which another worker takes over
	// claims. A worker whose presence loop panics once is therefore not declared dead.
	maxBackoff = 3 * time.Second
	// calm is how long a loop must run without a panic to reset its backoff.
	calm = time.Minute
)

// Runner runs loops. It is safe for concurrent use.
type Runner struct {
	logger *slog.Logger
	panics *prometheus.CounterVec
}

// NewRunner returns a runner. All runners of a registry share one metric.
func NewRunner(logger *slog.Logger, r prometheus.Registerer) *Runner {
	panics := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rubato_loop_panics_total", Help: "Panics of background loops, by loop; a loop restarts after a backoff.",
	}, []string{"loop"})
	if err := r.Register(panics); err != nil {
		known, is := errors.AsType[prometheus.AlreadyRegisteredError](err)
		if !is {
			// Another metric has this name, which is a programming error.
			panic(err)
		}
		panics = known.ExistingCollector.(*prometheus.CounterVec) //nolint:forcetypeassert // Only this function registers the description.
	}
	for _, name := range Names() {
		panics.WithLabelValues(string(name))
	}
	return &Runner{logger: logger, panics: panics}
}

// Run runs body until it returns without a panic, or until ctx ends during a backoff. After a
// panic, body starts again, so it must keep durable state outside of its own variables.
func (r *Runner) Run(ctx context.Context, name Name, body func(context.Context)) {
	for backoff := minBackoff; ; backoff = min(2*backoff, maxBackoff) {
		began := time.Now()
		if err := r.Contain(name, func() { body(ctx) }); err == nil {
			return
		}
		if time.Since(began) >= calm {
			backoff = minBackoff
		}
		timer := time.NewTimer(jittered(backoff))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// Contain runs one step of a loop. It counts and logs a panic and returns it as a [PanicError];
// otherwise it returns nil. Goroutines that a loop starts also need it, because a panic in any
// goroutine ends the process.
func (r *Runner) Contain(name Name, step func()) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			r.panics.WithLabelValues(string(name)).Inc()
			r.logger.Error("loop panicked", "loop", string(name), "error", fault, "stack", string(debug.Stack()))
			err = &PanicError{Loop: name, Fault: fault}
		}
	}()
	step()
	return nil
}

// PanicError is a panic that was contained.
type PanicError struct {
	Loop  Name
	Fault any
}

// Error implements error.
func (e *PanicError) Error() string { return fmt.Sprintf("the %s loop panicked: %v", e.Loop, e.Fault) }

// jittered adds jitter of a fifth, so that workers that panic on the same row do not retry at the
// same time.
func jittered(wait time.Duration) time.Duration {
	return wait*4/5 + rand.N(wait*2/5+1) //nolint:gosec // Jitter needs no secrecy.
}
