package schedule

import (
	"fmt"
	"time"
)

// Occurrence is a due time for display.
type Occurrence struct {
	At   time.Time // in the zone of the schedule
	Note string    // effect of a clock change; empty if there is none
}

// Note describes the effect of a clock change on an occurrence; empty if there is none, or if the
// instant is no occurrence.
func (c *Cron) Note(at time.Time) string {
	if !c.Next(at.Add(-1)).Equal(at) {
		return ""
	}
	return c.note(at.Unix())
}

// NextTransition returns the first clock change after an instant and within a duration that skips,
// moves or repeats a time of the schedule. Its note describes the effect. Overlaps of a schedule
// that follows real time are not reported, because it repeats nothing.
func (c *Cron) NextTransition(after time.Time, within time.Duration) (change Occurrence, ok bool) {
	now := after.Unix()
	if now < earliest || now > latest {
		return Occurrence{}, false
	}
	limit := min(after.Add(within).Unix(), latest)
	for s := zonePeriodAt(c.zone, now); s.end <= limit; {
		s = s.next(c.zone)
		change = Occurrence{At: time.Unix(s.start, 0).In(c.zone)}
		if change.Note = c.gapNote(s); change.Note == "" {
			change.Note = c.overlapNote(s)
		}
		if change.Note != "" {
			return change, true
		}
	}
	return Occurrence{}, false
}

// note describes the effect of a clock change on the occurrence at an instant.
func (c *Cron) note(instant int64) string {
	s := zonePeriodAt(c.zone, instant)
	if instant == s.start {
		if note := c.gapNote(s); note != "" && !c.skipGaps {
			return note
		}
	}
	reading := instant + s.offset
	if instant < s.secondPassEnd() {
		return fmt.Sprintf("%s comes twice on this day: this is the second", clockText(reading))
	}
	if s.end > latest {
		return ""
	}
	if next := s.next(c.zone); reading >= next.start+next.offset {
		return fmt.Sprintf("%s comes twice on this day: this is the first", clockText(reading))
	}
	return ""
}

// gapNote describes the effect of the gap before the zone period; empty if there is none.
func (c *Cron) gapNote(s zonePeriod) string {
	first, ok := c.missing(s)
	if !ok {
		return ""
	}
	_, end := s.gap()
	missing, resumed, when := clockText(first), clockText(end), " on this day"
	if from, to := dayText(first), dayText(end); from != to {
		missing, resumed, when = from+" "+missing, to+" "+resumed, ""
	}
	verb := " does not exist"
	if _, more := c.pattern.next(first+1, end); more {
		verb = " and later times in the gap do not exist"
	}
	if c.skipGaps {
		return missing + verb + when + ": skipped"
	}
	name, _ := time.Unix(s.start, 0).In(c.zone).Zone()
	return fmt.Sprintf("%s%s%s: runs at %s %s, the first instant after the gap", missing, verb, when, resumed, name)
}

// overlapNote describes the effect of the overlap at the start of the zone period.
func (c *Cron) overlapNote(s zonePeriod) string {
	if c.pattern.even {
		return ""
	}
	reading, ok := c.pattern.next(s.start+s.offset, s.start+s.before)
	switch {
	case !ok:
		return ""
	case c.bothPasses:
		return clockText(reading) + " comes twice on this day: both run"
	}
	return clockText(reading) + " comes twice on this day: only the first runs"
}

// clockText formats the time of day, with seconds only if they are not zero.
func clockText(reading int64) string {
	t := time.Unix(reading, 0).UTC()
	if t.Second() == 0 {
		return t.Format("15:04")
	}
	return t.Format(time.TimeOnly)
}

// dayText formats the date of a local time.
func dayText(reading int64) string { return time.Unix(reading, 0).UTC().Format(time.DateOnly) }
