package planner

import (
	"slices"
	"time"
)

// Memory is the state that the planner stores per endpoint between analyses.
type Memory struct {
	// Analyses are the times of the last hour's analyses, oldest first.
	Analyses []time.Time `json:"analyses,omitempty"`
	// Changes are the times of the last hour's changes, oldest first.
	Changes []time.Time `json:"changes,omitempty"`
	// Direction is that of the last change of the interval: -1 shorter, 1 longer, 0 neither.
	Direction int       `json:"direction,omitempty"`
	Last      *Analysis `json:"last,omitempty"`
	// Pauses are the planner's own pauses of the last four hours, oldest first.
	Pauses []Span `json:"pauses,omitempty"`
}

// Span is the time from one instant to another.
type Span struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
}

// rateWindow is the window of the limits on analyses and changes.
const rateWindow = time.Hour

// pauseWindow is the window of the limit on pauses.
const pauseWindow = 4 * time.Hour

// pruned returns the memory without entries that are older than their window.
func (m Memory) pruned(now time.Time) Memory {
	old := func(t time.Time) bool { return !t.After(now.Add(-rateWindow)) }
	m.Analyses = slices.DeleteFunc(slices.Clone(m.Analyses), old)
	m.Changes = slices.DeleteFunc(slices.Clone(m.Changes), old)
	m.Pauses = slices.DeleteFunc(slices.Clone(m.Pauses), func(s Span) bool { return !s.Until.After(now.Add(-pauseWindow)) })
	return m
}

// withChanges returns the memory with n changes added at an instant.
func (m Memory) withChanges(now time.Time, n, direction int) Memory {
	m = m.pruned(now)
	for range n {
		m.Changes = append(m.Changes, now)
	}
	m.Direction = direction
	return m
}

// pausedWithin returns how much of a span the planner's pauses cover.
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

// withAnalysis returns the memory with an analysis added.
func (m Memory) withAnalysis(a Analysis) Memory {
	m = m.pruned(a.At)
	m.Analyses = append(m.Analyses, a.At)
	m.Last = &a
	return m
}
