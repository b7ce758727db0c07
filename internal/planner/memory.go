package planner

import (
	"slices"
	"time"
)

// Memory is what the planner remembers of an endpoint between analyses.
type Memory struct {
	Analyses  []time.Time `json:"analyses,omitempty"`  // those of the last hour, oldest first
	Changes   []time.Time `json:"changes,omitempty"`   // likewise
	Direction int         `json:"direction,omitempty"` // of the last change: -1 shorter, 1 longer, 0 neither
	Last      *Analysis   `json:"last,omitempty"`
	Pauses    []Span      `json:"pauses,omitempty"` // the planner's, of the last four hours, oldest first
}

// Span is a time from one instant to another.
type Span struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
}

// rememberedFor is the window that rates are counted in.
const rateWindow = time.Hour

// pausesFor is the window in which pauses are bounded.
const pauseWindow = 4 * time.Hour

// at returns the memory as of an instant: what is older than the window is forgotten.
func (m Memory) pruned(now time.Time) Memory {
	old := func(t time.Time) bool { return !t.After(now.Add(-rateWindow)) }
	m.Analyses = slices.DeleteFunc(slices.Clone(m.Analyses), old)
	m.Changes = slices.DeleteFunc(slices.Clone(m.Changes), old)
	m.Pauses = slices.DeleteFunc(slices.Clone(m.Pauses), func(s Span) bool { return !s.Until.After(now.Add(-pauseWindow)) })
	return m
}

// changed returns the memory after changes of some kinds at an instant.
func (m Memory) withChanges(now time.Time, n, direction int) Memory {
	m = m.pruned(now)
	for range n {
		m.Changes = append(m.Changes, now)
	}
	m.Direction = direction
	return m
}

// paused returns how much of a span the planner's own pauses take.
func (m Memory) pausedWithin(from, until time.Time) (total time.Duration) {
	for _, s := range m.Pauses {
		if s.From.Before(from) {
			s.From = from
		}
		if s.Until.After(until) {
			s.Until = until
		}
		total += max(0, s.Until.Sub(s.From))
	}
	return total
}

// analysed returns the memory after an analysis.
func (m Memory) withAnalysis(a Analysis) Memory {
	m = m.pruned(a.At)
	m.Analyses = append(m.Analyses, a.At)
	m.Last = &a
	return m
}
