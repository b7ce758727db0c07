package planner

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"rubato/internal/telemetry"
)

// metrics holds the planner's metrics.
type metrics struct {
	sessions *prometheus.CounterVec
	tokens   *prometheus.CounterVec
	cost     prometheus.Counter
	hints    *prometheus.CounterVec
	busy     prometheus.Gauge
	errors   prometheus.Counter
	lost     prometheus.Counter
	panics   prometheus.Counter
}

// The values of the label decision.
const (
	decidedActed     = "acted"
	decidedSuggested = "suggested"
	decidedObserved  = "observed"
	decidedRefused   = "refused" // by the guardrails
	decidedCut       = "cut"     // by the guardrails; counted in addition to the decision
	decidedStale     = "stale"
)

func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	m := &metrics{
		sessions: f.NewCounterVec(prometheus.CounterOpts{
			Name: "rubato_planner_sessions_total", Help: "Analyses, by how they ended.",
		}, []string{"outcome"}),
		tokens: f.NewCounterVec(prometheus.CounterOpts{
			Name: "rubato_planner_tokens_total", Help: "Tokens of models that analyses used, by kind.",
		}, []string{"kind"}),
		cost: f.NewCounter(prometheus.CounterOpts{
			Name: "rubato_planner_cost_dollars_total", Help: "What models cost, in US dollars, as far as their prices are known.",
		}),
		hints: f.NewCounterVec(prometheus.CounterOpts{
			Name: "rubato_planner_hints_total", Help: "Changes that advisors proposed, by kind and by what became of them.",
		}, []string{"kind", "decision"}),
		busy:   f.NewGauge(prometheus.GaugeOpts{Name: "rubato_planner_busy", Help: "Analyses under way."}),
		errors: f.NewCounter(prometheus.CounterOpts{Name: "rubato_planner_errors_total", Help: "Passes and analyses that failed by a fault outside the advisor."}),
		lost:   f.NewCounter(prometheus.CounterOpts{Name: "rubato_planner_claims_lost_total", Help: "Analyses that outlived their claim and wrote nothing."}),
		panics: telemetry.Panics(r, telemetry.InAnalysis),
	}
	for _, result := range Results() {
		m.sessions.WithLabelValues(string(result))
	}
	for _, kind := range []string{"prompt", "completion"} {
		m.tokens.WithLabelValues(kind)
	}
	for _, kind := range kinds() {
		for _, decision := range []string{decidedActed, decidedSuggested, decidedObserved, decidedRefused, decidedCut, decidedStale} {
			m.hints.WithLabelValues(string(kind), decision)
		}
	}
	return m
}

// closed counts a recorded session.
func (m *metrics) closed(c Completion, d *sessionTools) {
	s := c.Session
	m.sessions.WithLabelValues(string(s.Outcome)).Inc()
	m.tokens.WithLabelValues("prompt").Add(float64(s.Usage.PromptTokens))
	m.tokens.WithLabelValues("completion").Add(float64(s.Usage.CompletionTokens))
	m.cost.Add(float64(s.Usage.CostMicros) / 1e6)
	for kind, n := range d.refused {
		m.hints.WithLabelValues(string(kind), decidedRefused).Add(float64(n))
	}
	for kind, n := range d.cut {
		m.hints.WithLabelValues(string(kind), decidedCut).Add(float64(n))
	}
	decisions := map[Result]string{
		Acted:     decidedActed,
		Suggested: decidedSuggested,
		Observed:  decidedObserved,
		Stale:     decidedStale,
	}
	if decision := decisions[s.Outcome]; decision != "" {
		for _, kind := range d.plan.Kinds() {
			m.hints.WithLabelValues(string(kind), decision).Inc()
		}
	}
}
