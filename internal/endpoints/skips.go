package endpoints

import (
	"time"

	"rubato/internal/governor"
)

// SkipReason is the reason why due times passed without a run. It is the reason code of the
// recorded row.
type SkipReason string

// The reasons.
const (
	// OverlapSkipped: the endpoint's own run was still live, and the queue was off, full or ended.
	OverlapSkipped SkipReason = "overlap_skipped"
	// PauseSkipped: the endpoint was paused.
	PauseSkipped SkipReason = "pause_skipped"
	// MisfireSkipped: no worker started the run in time, because of an outage or because a change
	// came first.
	MisfireSkipped SkipReason = "misfire_skipped"
)

// Skip is a sequence of due times of an endpoint that passed without a run.
type Skip struct {
	// From is the first of the due times, To the last.
	From, To time.Time
	// Count is exact, except for a cron with clamps and more than 20,000 due times since its last
	// run: then it is a lower bound.
	Count  int64
	Reason SkipReason
	// Source is the rule that set the first due time.
	Source governor.Source
}

// account collects the due times between the low-water mark AccountedUntil and now that no run
// serves or will serve. It stores them in Unrecorded and advances AccountedUntil. before is the
// endpoint as it stood in that time. run is the live run or the one that just ended; nil: none.
// decided is nil if no decision was made, because a run is live or the endpoint is archived.
//
// A run that is planned at once because due times passed serves the last of them. A one-off run
// serves none of them. An unusable schedule has no due times; the schedule that replaces it
// accounts for the time.
func (e *Endpoint) account(now time.Time, before *Endpoint, run *Finished, decided *Recorded) {
	e.Unrecorded = nil
	since := before.accountedUntil()
	e.State.AccountedUntil = since
	if e.defers(now, before, decided) {
		return
	}
	until, accounted, atOnce := e.extent(now, decided)
	p := skipCollector{
		before: *before,
		since:  since,
		until:  until,
	}
	if err := p.collect(now, run, decided); err != nil {
		return
	}
	if atOnce && decided.Due.Slot.Before(now) && !p.last().Equal(decided.Due.Slot) {
		e.standForNow(now, decided)
		accounted = now.Add(-time.Millisecond)
	}
	if last := p.last(); atOnce && !last.IsZero() {
		p.until, p.found = last.Add(-time.Millisecond), nil
		if err := p.collect(now, run, decided); err != nil {
			return
		}
	}
	e.State.AccountedUntil = laterOf(since, accounted)
	e.Unrecorded = p.merged()
}

// extent returns the instant up to which account looks for due times, and the new low-water mark.
// atOnce reports whether a run is planned now that serves the last of them.
func (e *Endpoint) extent(now time.Time, decided *Recorded) (until, accounted time.Time, atOnce bool) {
	if oldest := e.oldestQueued(decided); !oldest.IsZero() { // It and those after it have runs of their own.
		accounted = oldest.Add(-time.Millisecond)
		return accounted, accounted, false
	}
	if decided == nil || decided.Due.Source == governor.SourceManual || !decided.Due.first() || decided.Due.Slot.After(now) {
		return now, now, false
	}
	accounted = decided.Due.Slot.Add(-time.Millisecond)
	if decided.Due.Slot.Before(now) && e.catchesUp() { // The occurrences after it have runs of their own.
		return accounted, accounted, false
	}
	return now, accounted, true
}

// standForNow decides again, so that an immediate run serves the instant of the decision. It is
// needed if the last occurrence of the cron is not the due time that passed last, because of a
// change or an expired hint, or if it is already recorded. Each due time has either one run or one
// record.
func (e *Endpoint) standForNow(now time.Time, decided *Recorded) {
	decided.Input.OnRecord = now
	decided.Decision = governor.Decide(decided.Input)
	decided.Due.At, decided.Due.Slot, decided.Due.Source = decided.Decision.At, decided.Decision.Slot, decided.Decision.Source
	e.State.Due = decided.Due
}

// accountedUntil returns the low-water mark of accounted due times. Rows that an earlier release
// wrote have none, so it falls back to LastSlot and CreatedAt. While due times are queued, LastSlot
// may be that of a one-off run that overtook them.
func (e *Endpoint) accountedUntil() time.Time {
	mark := laterOf(e.State.AccountedUntil, e.CreatedAt.Add(-time.Millisecond))
	if e.queues() {
		return mark
	}
	return laterOf(mark, e.State.LastSlot)
}

// liveRun returns the live run in the form that account takes; nil: none is live.
func (e *Endpoint) liveRun() *Finished {
	r := e.State.Running
	if r == nil {
		return nil
	}
	return &Finished{
		Slot:         r.Slot,
		Attempt:      r.Attempt,
		InfraAttempt: r.InfraAttempt,
		Source:       e.State.Due.Source,
		StartedAt:    r.StartedAt,
	}
}

// defers reports whether a later decision must account for the due times, because it may still run
// them. With a queue, that is so during a live run; with catch-up of all occurrences, during a
// pause too.
func (e *Endpoint) defers(now time.Time, before *Endpoint, decided *Recorded) bool {
	if decided == nil && e.queues() && before.queues() && !e.Archived() && e.Spec.sameGrid(&before.Spec) {
		return true
	}
	if !e.catchesUp() || !before.catchesUp() || e.Archived() || !e.Spec.sameCron(&before.Spec) {
		return false
	}
	return decided == nil || e.PausedAt(now) && decided.Due.Source != governor.SourceManual
}

func (e *Endpoint) catchesUp() bool {
	return e.Spec.BaselineCron != "" && e.Spec.CatchUp == governor.CatchUpAll
}

func (s *Spec) sameCron(other *Spec) bool {
	return s.BaselineCron == other.BaselineCron && s.Timezone == other.Timezone && s.DST == other.DST
}

// sameGrid reports whether the due times after an anchor are the same, hints and backoff apart.
func (s *Spec) sameGrid(other *Spec) bool {
	return s.sameCron(other) && s.BaselineInterval == other.BaselineInterval && s.MinInterval == other.MinInterval && s.MaxInterval == other.MaxInterval
}

// skipCollector gathers the due times of an endpoint that passed in (since, until].
type skipCollector struct {
	// before is a copy. It keeps the endpoint of every finish off the heap.
	before Endpoint
	since  time.Time
	until  time.Time
	found  []Skip
}

// gridInput returns the governor's input whose due times are collected. It is called only for spans
// that are not empty, because after an ordinary run all of them are.
type gridInput func() (governor.Input, error)

// collect finds the due times that passed while nothing ran, and then those that passed during a
// run.
func (p *skipCollector) collect(now time.Time, run *Finished, decided *Recorded) error {
	if run == nil {
		return p.wait(p.until, false)
	}
	// Attempts of one due time count as one run here, so the time between them overlaps too.
	begun := p.since
	moved := begun // the instant from which due times follow the run
	if run.first() {
		begun = laterOf(run.StartedAt.Truncate(time.Millisecond), run.Slot)
		moved = begun
		if run.Status == skipped { // A skipped run sent nothing, so the grid counts from its due time.
			moved = run.Slot
		}
		if err := p.wait(earlierOf(p.until, moved), true); err != nil {
			return err
		}
	}
	after := func() (governor.Input, error) {
		if decided != nil { // The decision's input holds the tempo that the run itself may have changed.
			return decided.Input, nil
		}
		in, err := p.before.input(now, governor.CauseFinish)
		in.Anchor = p.before.anchorAfter(*run)
		return in, err
	}
	if err := p.idle(after, governor.Span{After: laterOf(p.since, moved), Until: earlierOf(p.until, begun)}); err != nil {
		return err
	}
	return p.take(after, governor.Span{After: laterOf(p.since, begun), Until: p.until}, OverlapSkipped)
}

// wait collects the due times up to an instant during which nothing ran. It includes the planned
// due time unless a run served it.
func (p *skipCollector) wait(until time.Time, served bool) error {
	s := &p.before.State
	before := func() (governor.Input, error) {
		return p.before.input(laterOf(p.since, p.before.CreatedAt), governor.CauseFinish)
	}
	from := p.since
	if !p.before.hasQueue() { // The wait moved all due times before it.
		from = laterOf(from, s.wait().Add(-time.Millisecond))
	}
	if s.Due.Source == governor.SourceManual {
		return p.idle(before, governor.Span{After: from, Until: until})
	}
	due := s.Due.Slot
	held := earlierOf(earlierOf(until, p.resumed()), due.Add(-time.Millisecond))
	if err := p.take(before, governor.Span{After: from, Until: held}, PauseSkipped); err != nil {
		return err
	}
	reason := MisfireSkipped
	if p.before.hasQueue() { // They wait behind a run.
		reason = OverlapSkipped
	}
	if due.After(until) {
		return nil
	}
	if due.After(p.since) && !served {
		p.found = append(p.found, Skip{
			From:   due,
			To:     due,
			Count:  1,
			Reason: reason,
			Source: s.Due.Source,
		})
	}
	afterDue := func() (governor.Input, error) {
		in, err := before()
		in.Anchor, in.Now = due, due
		return in, err
	}
	return p.take(afterDue, governor.Span{After: laterOf(p.since, due), Until: until}, reason)
}

// idle collects the due times within a span in which nothing ran: first those in the pause, then
// the misfires.
func (p *skipCollector) idle(of gridInput, within governor.Span) error {
	resumed := p.resumed()
	if err := p.take(of, governor.Span{After: within.After, Until: earlierOf(within.Until, resumed)}, PauseSkipped); err != nil {
		return err
	}
	return p.take(of, governor.Span{After: laterOf(within.After, resumed), Until: within.Until}, MisfireSkipped)
}

// resumed returns the last instant of the pause.
func (p *skipCollector) resumed() time.Time { return p.before.State.PausedUntil.Add(-time.Millisecond) }

// take collects the due times of a schedule within a span that follow its anchor.
func (p *skipCollector) take(of gridInput, within governor.Span, reason SkipReason) error {
	if !within.Until.After(within.After) {
		return nil
	}
	in, err := of()
	if err != nil {
		return err
	}
	for _, s := range governor.DueTimes(in, within) {
		p.found = append(p.found, Skip{
			From:   s.From,
			To:     s.To,
			Count:  s.Count,
			Reason: reason,
			Source: s.Source,
		})
	}
	return nil
}

// last returns the last collected due time; zero: none.
func (p *skipCollector) last() time.Time {
	if len(p.found) == 0 {
		return time.Time{}
	}
	return p.found[len(p.found)-1].To
}

// merged returns the collected skips, with adjacent ones of the same reason merged.
func (p *skipCollector) merged() []Skip {
	var list []Skip
	for _, s := range p.found {
		if n := len(list); n > 0 && list[n-1].Reason == s.Reason {
			list[n-1].To = s.To
			list[n-1].Count += s.Count
			continue
		}
		list = append(list, s)
	}
	return list
}
