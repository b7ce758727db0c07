package endpoints

import "time"

// endAt returns the end of the schedule: the earlier one of endAt and the instant at which maxRuns
// was reached; zero: no end.
func (e *Endpoint) endAt() time.Time {
	end := e.Spec.EndAt
	if reached := e.State.EndedAt; !reached.IsZero() && (end.IsZero() || reached.Before(end)) {
		return reached
	}
	return end
}

// countRun counts a run that is not repeated against maxRuns. It reports whether the run was the
// last one. A one-off run and a skipped due time do not count.
func (e *Endpoint) countRun(run Finished) (last bool) {
	s := &e.State
	if e.Spec.MaxRuns == 0 || run.manual() || run.Status == skipped {
		return false
	}
	s.RunsDone++
	if s.RunsDone < e.Spec.MaxRuns || !s.EndedAt.IsZero() {
		return false
	}
	s.EndedAt = run.Slot.Add(time.Millisecond)
	return true
}

// limitRuns applies an edit of maxRuns. A higher limit resumes an ended schedule, and a lower one
// ends it now.
func (e *Endpoint) limitRuns(now time.Time) {
	s := &e.State
	switch {
	case e.Spec.MaxRuns == 0:
		s.RunsDone, s.EndedAt = 0, time.Time{}
	case s.RunsDone < e.Spec.MaxRuns:
		s.EndedAt = time.Time{}
	case s.EndedAt.IsZero():
		s.EndedAt = now
	}
}
