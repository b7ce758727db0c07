package planner

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"rubato/internal/runs"
)

// Office carries out sessions without a store, for simulations in virtual time.
type SessionRunner struct{ planner *Planner }

// NewOffice returns an office with an advisor and rails.
func NewSessionRunner(a Advisor, r Guardrails) SessionRunner {
	return SessionRunner{&Planner{
		cfg:     Config{Advisor: a, Guardrails: r, Evidence: emptyEvidence{}, Timeout: time.Hour, Logger: slog.New(slog.DiscardHandler)},
		metrics: newMetrics(prometheus.NewRegistry()),
	}}
}

// Analyse returns what a session leaves.
func (o SessionRunner) Analyse(ctx context.Context, m Inputs, t Claim) (Completion, error) {
	t.Memory = t.Memory.pruned(m.Now)
	a := &analysis{Planner: o.planner, claim: t, inputs: m}
	if err := a.prepare(); err != nil {
		return Completion{}, err
	}
	a.runAdvisor(ctx)
	if a.advisorErr != nil {
		return Completion{}, a.advisorErr
	}
	return a.completion(), nil
}

// LeaveAlone tells whether an endpoint is not to be analysed.
func Parked(m Inputs) bool { return parkReason(m) != "" }

// NewResponse returns an answer as advisors see it.
func NewResponse(run runs.Run) Response { return newResponse(run) }

type emptyEvidence struct{}

func (emptyEvidence) Load(context.Context, Account) (Inputs, error) {
	return Inputs{}, errors.New("nothing")
}

func (emptyEvidence) Responses(context.Context, Account, int) ([]runs.Run, error) { return nil, nil }

func (emptyEvidence) Purge(context.Context, time.Time) error { return nil }
