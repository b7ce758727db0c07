package endpoints

import (
	"fmt"
	"time"

	"rubato/internal/errs"
)

// zoneNotice is how far ahead a clock change is worth a warning.
const zoneNotice = 366 * 24 * time.Hour

// Warnings names what is legal but probably not meant, at an instant of database time.
func (e *Endpoint) Warnings(now time.Time) []errs.Field {
	s := e.Spec
	var list []errs.Field
	warn := func(field, code, message string) {
		list = append(list, errs.Field{Field: field, Code: code, Message: message})
	}
	if s.BaselineCron != "" && s.MinInterval > 0 {
		warn("minIntervalMs", "clamp_moves_cron", "moves runs off the cron's own times whenever two of them are closer than this")
	}
	if s.BaselineCron != "" && s.MaxInterval > 0 {
		warn("maxIntervalMs", "clamp_moves_cron", "adds runs off the cron's own times whenever two of them are further apart than this")
	}
	if s.BaselineInterval > 0 && (s.MinInterval > s.BaselineInterval || s.MaxInterval > 0 && s.MaxInterval < s.BaselineInterval) {
		warn("baselineIntervalMs", "baseline_outside_clamps", "lies outside minIntervalMs and maxIntervalMs, so a clamp always decides instead")
	}
	if s.BaselineInterval > 0 && s.Timeout > s.BaselineInterval {
		warn("timeoutMs", "timeout_exceeds_interval", "is longer than baselineIntervalMs: a slow answer makes the next run late")
	}
	if e.State.IntervalHint != nil && e.State.OneShotHint != nil &&
		e.State.IntervalHint.ExpiresAt.After(now) && e.State.OneShotHint.ExpiresAt.After(now) {
		warn("hints", "both_hints_live", "an interval hint and a one-shot hint are live at once: the earlier of the two wins")
	}
	if cron, err := s.ParseCron(e.ID); err == nil && cron != nil {
		if change, found := cron.NextTransition(now, zoneNotice); found {
			warn("timezone", "clock_change", fmt.Sprintf("on %s: %s", change.At.Format(time.DateOnly), change.Note))
		}
	}
	return list
}
