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
type Office struct{ planner *Planner }

// NewOffice returns an office with an advisor and rails.
func NewOffice(a Advisor, r Rails) Office {
	return Office{&Planner{
		cfg:     Config{Advisor: a, Rails: r, Evidence: nothing{}, Timeout: time.Hour, Logger: slog.New(slog.DiscardHandler)},
		metrics: newMetrics(prometheus.NewRegistry()),
	}}
}

// Analyse returns what a session leaves.
func (o Office) Analyse(ctx context.Context, m Material, t Ticket) (Closing, error) {
	t.Memory = t.Memory.at(m.Now)
	a := &analysis{Planner: o.planner, ticket: t, material: m}
	if err := a.prepare(); err != nil {
		return Closing{}, err
	}
	a.consult(ctx)
	if a.fault != nil {
		return Closing{}, a.fault
	}
	return a.closing(), nil
}

// LeaveAlone tells whether an endpoint is not to be analysed.
func LeaveAlone(m Material) bool { return leaveAlone(m) != "" }

// NewResponse returns an answer as advisors see it.
func NewResponse(run runs.Run) Response { return newResponse(run) }

type nothing struct{}

func (nothing) Look(context.Context, Account) (Material, error) {
	return Material{}, errors.New("nothing")
}

func (nothing) Answers(context.Context, Account, int) ([]runs.Run, error) { return nil, nil }

func (nothing) Tidy(context.Context, time.Time) error { return nil }
