package endpoints

import (
	"fmt"
	"time"

	"rubato/internal/errs"
	"rubato/internal/governor"
)

// zoneNotice is how far ahead a clock change causes a warning.
const zoneNotice = 366 * 24 * time.Hour

// Warnings returns the settings that are valid but probably unintended, at an instant of database
// time.
func (e *Endpoint) Warnings(now time.Time) []errs.Field {
	list := append(e.Spec.cronWarnings(), e.Spec.intervalWarnings()...)
	list = append(list, e.Spec.tlsWarnings(now)...)
	list = append(list, e.Spec.authWarnings()...)
	list = append(list, SecretsInClear("headers", e.Spec.Headers)...)
	if s := e.State; s.IntervalHint.fresh(now) && s.OneShotHint.fresh(now) {
		list = append(list, errs.Field{
			Field:   "hints",
			Code:    "both_hints_live",
			Message: "an interval hint and a one-shot hint are live at once: the earlier of the two wins",
		})
	}
	list = append(list, e.Spec.maxWarnings()...)
	if cron, err := e.Spec.ParseCron(e.ID); err == nil && cron != nil {
		next := cron.Next(now)
		list = append(list, e.Spec.jitterWarnings(cron.Next(next).Sub(next))...)
		if change, found := cron.NextTransition(now, zoneNotice); found {
			list = append(list, errs.Field{
				Field:   "timezone",
				Code:    "clock_change",
				Message: fmt.Sprintf("on %s: %s", change.At.Format(time.DateOnly), change.Note),
			})
		}
	}
	return list
}

// plannerWarnings reports the bounds of the tempo that the planner may set.
func (e *Endpoint) plannerWarnings(now time.Time) []errs.Field {
	if e.Spec.Planner != PlannerAct {
		return nil
	}
	usual, err := e.Usual(now)
	if err != nil || usual <= 0 {
		return nil
	}
	fastest, slowest := e.tempoBounds(usual)
	advice := "change minIntervalMs and maxIntervalMs to move these bounds"
	switch {
	case e.Spec.MinInterval > 0:
	case e.Spec.Budget != "":
		advice = "the budget limits its runs; set minIntervalMs to keep them apart"
	default:
		advice = "never faster than the baseline, because minIntervalMs is not set"
	}
	return []errs.Field{{
		Field:   "planner",
		Code:    "planner_bounds",
		Message: fmt.Sprintf("act: the planner may run it every %s to every %s; %s", fastest, slowest, advice),
	}}
}

// fresh reports whether the hint exists and has not expired. A hint that expires exactly now does
// not count.
func (h *Hint) fresh(now time.Time) bool { return h != nil && h.ExpiresAt.After(now) }

// cronWarnings warns about clamps that move a cron off its grid.
func (s Spec) cronWarnings() (list []errs.Field) {
	if s.BaselineCron == "" {
		return nil
	}
	if s.MinInterval > 0 {
		list = append(list, errs.Field{
			Field:   "minIntervalMs",
			Code:    "clamp_moves_cron",
			Message: "moves runs off the cron's own times whenever two of them are closer than this",
		})
	}
	if s.MaxInterval > 0 {
		list = append(list, errs.Field{
			Field:   "maxIntervalMs",
			Code:    "clamp_moves_cron",
			Message: "adds runs off the cron's own times whenever two of them are further apart than this",
		})
	}
	return list
}

// intervalWarnings warns about settings that conflict with an interval.
func (s Spec) intervalWarnings() (list []errs.Field) {
	if s.BaselineInterval == 0 {
		return nil
	}
	if governor.Clamp(s.BaselineInterval, s.MinInterval, s.MaxInterval) != s.BaselineInterval {
		list = append(list, errs.Field{
			Field:   "baselineIntervalMs",
			Code:    "baseline_outside_clamps",
			Message: "lies outside minIntervalMs and maxIntervalMs, so a clamp always decides instead",
		})
	}
	if s.Timeout > s.BaselineInterval && !s.DetachesRuns() {
		list = append(list, errs.Field{
			Field:   "timeoutMs",
			Code:    "timeout_exceeds_interval",
			Message: "is longer than baselineIntervalMs: a slow answer makes the next run late",
		})
	}
	return append(list, s.jitterWarnings(s.BaselineInterval)...)
}

// jitterWarnings warns about a jitter that exceeds the gap between due times. The minimum interval
// widens that gap.
func (s Spec) jitterWarnings(gap time.Duration) []errs.Field {
	if s.Jitter <= max(gap, s.MinInterval) {
		return nil
	}
	return []errs.Field{{
		Field: "jitterMs", Code: "jitter_exceeds_interval",
		Message: "is longer than the time from one due time to the next: a run that it puts past due times costs those, so there are fewer runs than planned",
	}}
}

// maxWarnings warns about a jitter that the maximum interval cuts off.
func (s Spec) maxWarnings() []errs.Field {
	if s.MaxInterval == 0 || s.Jitter <= s.MaxInterval {
		return nil
	}
	return []errs.Field{{
		Field:   "jitterMs",
		Code:    "jitter_exceeds_max",
		Message: "is longer than maxIntervalMs, which cuts it off: the runs that it should spread come together",
	}}
}
