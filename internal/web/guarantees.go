package web

import (
	"github.com/a-h/templ"

	"rubato/internal/stats"
)

// promise is a line of the guarantee card: the guarantee, the number of violations among the newest
// runs, and the bound.
type promise struct {
	name, means string
	broken      int64
	measured    string // description of the count
	counts      bool   // broken says whether it held; else the line states a figure
}

// card returns the guarantees that can be checked on the run history. docs/guarantees.md lists all
// of them with their tests.
func card(p stats.GuaranteeStats) []promise {
	return []promise{
		{name: "Never early", means: "No request starts more than 50 ms before its due time, by the database's clock.", broken: p.Early, measured: "started early", counts: true},
		{name: "One result", means: "A due time has at most one result that succeeded.", broken: p.Doubled, measured: "runs of a due time that succeeded twice", counts: true},
		{name: "No overlap", means: "Requests to an endpoint do not overlap, except if the first request's worker was frozen or lost.", broken: p.Overlapping, measured: "started while another was open", counts: true},
		{name: "No run stays running", means: "A run whose lock has expired is settled within 105 s.", broken: p.Stuck, measured: "running runs past the limit", counts: true},
		{name: "Nothing is hidden: lost", means: "A run with an unknown outcome is recorded as lost, never as failed.", broken: p.Lost, measured: "lost runs"},
		{name: "Nothing is hidden: skipped", means: "Every due time that passed without a run is recorded.", broken: p.SkippedDue, measured: "due times skipped, all recorded"},
	}
}

func (v *pageRequest) guarantees() error {
	p, err := v.figures.Proof(v.r.Context(), v.who.TenantID)
	if err != nil {
		return err
	}
	return v.show(page{title: "Guarantees", nav: "guarantees"}, guaranteesPage(p, v.card))
}

// guaranteesLive streams updates of the checks of the newest runs.
func (v *pageRequest) guaranteesLive() error {
	return v.live(func() (templ.Component, error) {
		p, err := v.figures.Proof(v.r.Context(), v.who.TenantID)
		return proofPart(p), err
	})
}
