package governor

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// maxReason limits the part of a hint's reason in a step, in bytes, because steps are stored with
// every run of the hint.
const maxReason = 160

// whyInterval describes the interval baseline.
func (p *plan) whyInterval(doublings int) string {
	switch {
	case p.in.Terse:
		return ""
	case p.neverRun():
		return p.whyNeverRun()
	case doublings == 0:
		return "every " + p.every.String()
	}
	interval := backoff(p.in.Baseline.Interval, 0)
	return "every " + interval.String() + ", backoff x" + strconv.Itoa(1<<doublings) +
		" after " + plural(p.in.Failures, "failure")
}

// whyCron describes the cron baseline.
func (p *plan) whyCron(at time.Time) string {
	switch {
	case !at.Before(Indefinite):
		return "no further cron occurrence"
	case p.neverRun() && at.Before(p.in.Now):
		return "never run: its first cron occurrence has passed"
	case p.neverRun() && p.in.StartAt.After(p.in.Now):
		return "never run: first cron occurrence from " + p.instant(p.in.StartAt)
	case p.neverRun():
		return "never run: first cron occurrence"
	}
	return "next cron occurrence"
}

// whyNeverRun describes an interval before the first run.
func (p *plan) whyNeverRun() string {
	if p.in.StartAt.After(p.in.Now) {
		return "never run: starts at " + p.instant(p.in.StartAt)
	}
	return "never run: due at once"
}

// whyIntervalHint describes an interval hint.
func (p *plan) whyIntervalHint(hint *IntervalHint) string {
	if p.in.Terse {
		return ""
	}
	if !hint.OutageSince.IsZero() {
		return "hint: every " + p.every.String() + ", a tenth of the outage since " + p.instant(bound(hint.OutageSince)) + " and at least " +
			hint.Interval.String() + ", until " + p.instant(bound(hint.ExpiresAt)) + because(hint.Reason)
	}
	return "hint: every " + hint.Interval.String() + " until " + p.instant(bound(hint.ExpiresAt)) + because(hint.Reason)
}

// whyChangeRate describes the wait for the target's rate of change.
func (p *plan) whyChangeRate(c *ChangeRate) string {
	if p.in.Terse {
		return ""
	}
	why := "every " + c.Wait.String() + ": answers change " + often(c.Rate) + ", a run costs " +
		strconv.FormatFloat(c.Price, 'g', 3, 64) + " change-seconds"
	if c.Budget == "" {
		return why
	}
	why += truncated(", budget ", c.Budget)
	if c.UsedUp {
		why += ", which is used up until then"
	}
	return why
}

// often describes a rate of change by the mean time between changes, to three digits.
func often(perSecond float64) string {
	if !(perSecond > 0) {
		return "never"
	}
	seconds, unit := 1/perSecond, "s"
	switch {
	case seconds >= 7200:
		seconds, unit = seconds/3600, "h"
	case seconds >= 120:
		seconds, unit = seconds/60, "min"
	}
	return "every " + strconv.FormatFloat(seconds, 'g', 3, 64) + " " + unit
}

// whyOneShot describes a one-shot hint.
func (p *plan) whyOneShot(hint *OneShotHint, at time.Time) string {
	return "hint: once at " + p.instant(at) + because(hint.Reason)
}

// whyTarget describes a header of the last answer.
func (p *plan) whyTarget(at time.Time) string {
	if at.Equal(p.in.TargetNext) {
		return "the target asked for the next run at " + p.instant(at) + " (Rubato-Next)"
	}
	return "the answer is fresh until " + p.instant(at) + " (Cache-Control)"
}

// whyRetryAfter describes the target's Retry-After.
func (p *plan) whyRetryAfter() string {
	if p.in.RetryAsked.After(p.in.RetryAfter) {
		return "the target asked to wait until " + p.instant(p.in.RetryAsked) + ", cut to " + p.instant(p.in.RetryAfter) +
			": Retry-After holds back for 1h0m0s, 32 intervals or maxIntervalMs, whichever is longest"
	}
	return "the target asked to wait until " + p.instant(p.in.RetryAfter)
}

// whyCircuitOpen describes the wait for a host with an open breaker.
func (p *plan) whyCircuitOpen() string {
	return "the circuit of the host is open: tried again at " + p.instant(p.in.OpenUntil)
}

// whyEnded describes a schedule without further due times.
func (p *plan) whyEnded() string {
	return "the schedule ended at " + p.instant(p.in.EndAt)
}

// whyQueued describes a run for a due time that passed during another run.
func (p *plan) whyQueued(oldest time.Time) string {
	return "queued: " + p.instant(oldest) + " passed during a run; oldest first"
}

// whyOverrun describes the interval after a run that overran it.
func (p *plan) whyOverrun() string {
	return "overdue when the run ended: " + p.every.String() + " from now"
}

// whyCatchUp describes a run for a missed occurrence.
func (p *plan) whyCatchUp(oldest time.Time) string {
	return "overdue: catching up, oldest first, on " + p.instant(oldest)
}

// whyNothingLeft describes why no missed occurrence is run.
func (p *plan) whyNothingLeft() string {
	if p.in.Accounted.After(p.in.Now.Add(-catchUpReach)) {
		return "overdue: everything missed is on record as skipped"
	}
	return "overdue: everything missed is over " + catchUpReach.String() + " old and skipped"
}

// whyJitter describes the jitter.
func (p *plan) whyJitter(shift time.Duration) string {
	return shift.String() + " later, of less than " + p.in.Jitter.String()
}

// whyPaused describes a pause. due is the resumption without jitter.
func (p *plan) whyPaused(due time.Time) string {
	until := p.in.PausedUntil
	switch {
	case !until.Before(Indefinite):
		return "paused indefinitely"
	case p.kind != kindCron:
		return "paused until " + p.instant(until)
	case !due.Before(Indefinite):
		return "paused until " + p.instant(until) + ": no cron occurrence from then on"
	}
	return "paused until " + p.instant(until) + ": first cron occurrence from then on"
}

// instant formats an instant: the time of day if it is on the day of the decision, else with its
// date.
func (p *plan) instant(t time.Time) string {
	if t.YearDay() == p.in.Now.YearDay() && t.Year() == p.in.Now.Year() {
		return t.Format("15:04:05.999999Z")
	}
	return t.Format("2006-01-02T15:04:05.999999Z")
}

// because returns a reason as a suffix, truncated between characters.
func because(reason string) string {
	if reason == "" {
		return ""
	}
	return truncated(": ", reason)
}

// truncated returns a text behind a prefix, truncated between characters.
func truncated(prefix, text string) string {
	if len(text) <= maxReason {
		return prefix + text
	}
	cut := maxReason
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return prefix + strings.TrimRight(text[:cut], " ") + "…"
}

// plural formats a count.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
