package planner

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"rubato/internal/runs"
)

// SessionRunner runs analyses without a store and without a clock, for simulations: the inputs name
// the time. Responses with bodies are not available to its advisor. It is safe for concurrent use.
type SessionRunner struct{ planner *Planner }

// NewSessionRunner returns a runner with an advisor and guardrails.
func NewSessionRunner(a Advisor, r Guardrails) SessionRunner {
	return SessionRunner{&Planner{
		cfg: Config{
			Advisor:    a,
			Guardrails: r,
			Evidence:   noEvidence{},
			Timeout:    time.Hour,
			Logger:     slog.New(slog.DiscardHandler),
		},
		metrics: newMetrics(prometheus.NewRegistry()),
	}}
}

// Analyse runs one analysis and returns its result. An error of the advisor is its error.
func (r SessionRunner) Analyse(ctx context.Context, m Inputs, t Claim) (Completion, error) {
	t.Memory = t.Memory.pruned(m.Now)
	a := &analysis{
		Planner: r.planner,
		claim:   t,
		inputs:  m,
	}
	if err := a.prepare(); err != nil {
		return Completion{}, err
	}
	a.runAdvisor(ctx)
	if a.advisorErr != nil {
		return Completion{}, a.advisorErr
	}
	return a.completion(), nil
}

// Parked reports whether the planner leaves an endpoint alone.
func Parked(m Inputs) bool { return parkReason(m) != "" }

// noEvidence has no responses.
type noEvidence struct{}

func (noEvidence) Load(context.Context, Account) (Inputs, error) {
	return Inputs{}, errors.New("a session without a store loads nothing")
}

func (noEvidence) Responses(context.Context, Account, int) ([]runs.Run, error) { return nil, nil }

func (noEvidence) Purge(context.Context, time.Time) error { return nil }
