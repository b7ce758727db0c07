package schedule

import (
	"fmt"
	"time"
)

// Occurrence is a due time as people want to see it.
type Occurrence struct {
	At   time.Time // in the zone of the schedule
	Note string    // what a clock change does to this time; empty when it does nothing
}

// Note says what a clock change does to an occurrence; it is empty where none does anything, and where the instant is no occurrence.
func (c *Cron) Note(at time.Time) string {
	if !c.Next(at.Add(-1)).Equal(at) {
		return ""
	}
	return c.note(at.Unix())
}

// NextTransition returns the first clock change after after, and no later than within, that skips, moves or repeats one of the
// schedule's times, and says in its note what becomes of it. A schedule that follows real time repeats nothing by intent: its overlaps
// are not reported.
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

// note says what a clock change does to the occurrence at the instant.
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

// gapNote says what becomes of the times that the gap before the stretch swallows; it is empty if there are none.
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

// overlapNote says what becomes of the times that come twice because of the change at the start of the stretch.
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

// clockText returns the time of day of a reading; seconds only where there are some.
func clockText(reading int64) string {
	t := time.Unix(reading, 0).UTC()
	if t.Second() == 0 {
		return t.Format("15:04")
	}
	return t.Format(time.TimeOnly)
}

// dayText returns the date of a reading.
func dayText(reading int64) string { return time.Unix(reading, 0).UTC().Format(time.DateOnly) }
