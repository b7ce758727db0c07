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

// Name is the name of a loop, as the metric and the log have it.
type Name string

// The loops.
const (
	Claim      Name = "claim"
	Start      Name = "start"
	Finish     Name = "finish"
	Heartbeat  Name = "heartbeat"
	Presence   Name = "presence"
	Space      Name = "space" // probes the disk of the database
	Cancel     Name = "cancel"
	Backlog    Name = "backlog"
	Slots      Name = "slots"
	Sweep      Name = "sweep"
	Courier    Name = "courier"
	Listener   Name = "listener"
	Allowances Name = "allowances" // reads what tenants may call
	Secrets    Name = "secrets"    // notes which secrets were used
	Planner    Name = "planner"
	Answers    Name = "answers" // forgets old answers to requests with an Idempotency-Key
	Health     Name = "health"
	Heap       Name = "heap" // adapts the garbage collector
)

// Names returns every loop.
func Names() []Name {
	return []Name{
		Claim, Start, Finish, Heartbeat, Presence, Space, Cancel, Backlog, Slots, Sweep, Courier, Listener, Allowances, Secrets,
		Planner, Answers, Health, Heap,
	}
}

const (
	// minBackoff is the wait after the first panic. It doubles up to maxBackoff.
	minBackoff = 100 * time.Millisecond
	// maxBackoff is half of the silence after which another worker takes over claims, so that a
	// worker whose presence loop panics once is not taken for dead.
	maxBackoff = 3 * time.Second
	// calm is how long a loop must run without a panic until its backoff begins at minBackoff again.
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
		Name: "rubato_loop_panics_total", Help: "Panics of loops, which started again after a backoff, by loop.",
	}, []string{"loop"})
	if err := r.Register(panics); err != nil {
		known, is := errors.AsType[prometheus.AlreadyRegisteredError](err)
		if !is {
			panic(err) // Another metric has this name: a fault of the build.
		}
		panics = known.ExistingCollector.(*prometheus.CounterVec) //nolint:forcetypeassert // Equal descriptions come from here alone.
	}
	for _, name := range Names() {
		panics.WithLabelValues(string(name))
	}
	return &Runner{logger: logger, panics: panics}
}

// Run runs body until it returns without a panic, or until ctx ends during a backoff. A body keeps
// what must survive a panic outside of its own variables, because it begins anew.
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

// Contain runs one step of a loop. Its panic is counted and logged, and returned as a [PanicError];
// nil: there was none. Goroutines that a loop begins need it too: a panic of any of them would end
// the process.
func (r *Runner) Contain(name Name, step func()) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			r.panics.WithLabelValues(string(name)).Inc()
			r.logger.Error("a loop panicked", "loop", string(name), "error", fault, "stack", string(debug.Stack()))
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

// jittered spreads waits by a fifth, so that workers which panic on the same row do not do so in step.
func jittered(wait time.Duration) time.Duration {
	return wait*4/5 + rand.N(wait*2/5+1) //nolint:gosec // Spreading needs no secrecy.
}
