package endpoints

import (
	"time"

	"rubato/internal/governor"
)

// SkipReason says why due times passed without a run. It is the reason code of the row that records them.
type SkipReason string

// The reasons.
const (
	OverlapSkipped SkipReason = "overlap_skipped" // the endpoint's own run was still live
	PauseSkipped   SkipReason = "pause_skipped"   // the endpoint was paused
	MisfireSkipped SkipReason = "misfire_skipped" // nobody ran it in time: no worker, no database, or a change that came first
)

// Skip is due times of an endpoint, one after the other, that passed without a run.
type Skip struct {
	From, To time.Time // the first and the last of them
	Count    int64     // exact; of a cron with clamps and more than 20,000 due times since its last run at least so many
	Reason   SkipReason
	Source   governor.Source // what set the first of them
}

// account finds the due times that passed up to now while the endpoint stood as before, and that no run stands for or will stand for.
// It leaves them in Unrecorded and moves AccountedUntil on. Run is the one that is live or has just ended; nil: none. Decided is what
// was decided at now; nil: nothing, because a run is live or the endpoint is archived.
//
// A run that is planned at once because due times have passed stands for the last of them. One that somebody asked for stands for
// none of them. A schedule that cannot be used has no due times; the one that takes its place answers for them.
func (e *Endpoint) account(now time.Time, before *Endpoint, run *Finished, decided *Recorded) {
	e.Unrecorded = nil
	since := before.accountedUntil()
	e.State.AccountedUntil = since
	if e.defers(now, before, decided) {
		return
	}
	until, accounted, atOnce := e.extent(now, decided)
	p := passage{before: *before, since: since, until: until}
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

// extent returns up to which instant due times are looked for, up to which they are accounted for afterwards, and whether a run is planned
// at once that stands for the last of them.
func (e *Endpoint) extent(now time.Time, decided *Recorded) (until, accounted time.Time, atOnce bool) {
	if decided == nil || decided.Due.Source == governor.SourceManual || !decided.Due.first() || decided.Due.Slot.After(now) {
		return now, now, false
	}
	accounted = decided.Due.Slot.Add(-time.Millisecond)
	if decided.Due.Slot.Before(now) && e.catchesUp() { // The occurrences after it have runs of their own.
		return accounted, accounted, false
	}
	return now, accounted, true
}

// standForNow decides again that a run at once stands for the instant of the decision. The last occurrence of its cron is not what passed
// last: a change or the end of a hint came between, or it is on record already. A due time is one run or one record.
func (e *Endpoint) standForNow(now time.Time, decided *Recorded) {
	decided.Input.OnRecord = now
	decided.Decision = governor.Decide(decided.Input)
	decided.Due.At, decided.Due.Slot, decided.Due.Source = decided.Decision.At, decided.Decision.Slot, decided.Decision.Source
	e.State.Due = decided.Due
}

// accountedUntil returns the instant up to which every due time is accounted for. Rows that an earlier release wrote have none.
func (e *Endpoint) accountedUntil() time.Time {
	return laterOf(laterOf(e.State.AccountedUntil, e.State.LastSlot), e.CreatedAt.Add(-time.Millisecond))
}

// liveRun returns what the account needs to know of the live run; nil: none is live.
func (e *Endpoint) liveRun() *Finished {
	r := e.State.Running
	if r == nil {
		return nil
	}
	return &Finished{Slot: r.Slot, Attempt: r.Attempt, InfraAttempt: r.InfraAttempt, Source: e.State.Due.Source, StartedAt: r.StartedAt}
}

// defers reports whether the account waits for a later decision, which may yet catch up on everything that passed: while a run is
// live or a pause holds, nobody knows how that will end.
func (e *Endpoint) defers(now time.Time, before *Endpoint, decided *Recorded) bool {
	if !e.catchesUp() || !before.catchesUp() || e.Archived() || !e.Spec.sameCron(before.Spec) {
		return false
	}
	return decided == nil || e.PausedAt(now) && decided.Due.Source != governor.SourceManual
}

func (e *Endpoint) catchesUp() bool {
	return e.Spec.BaselineCron != "" && e.Spec.CatchUp == governor.CatchUpAll
}

func (s Spec) sameCron(other Spec) bool {
	return s.BaselineCron == other.BaselineCron && s.Timezone == other.Timezone && s.DST == other.DST
}

// passage gathers the due times of an endpoint that passed in (since, until].
type passage struct {
	before Endpoint // a copy, which keeps that of every finish off the heap
	since  time.Time
	until  time.Time
	found  []Skip
}

// collect finds what passed while nothing ran, and then what passed under a run.
func (p *passage) collect(now time.Time, run *Finished, decided *Recorded) error {
	if run == nil {
		return p.wait(p.until, false)
	}
	begun := p.since // Attempts of one due time are one run in this: the time between them is under way too.
	moved := begun   // from when the due times follow the run
	if run.first() {
		begun = laterOf(run.StartedAt.Truncate(time.Millisecond), run.Slot)
		moved = begun
		if run.Status == skipped { // It called nobody: what follows counts from when it was due, not from its start.
			moved = run.Slot
		}
		if err := p.wait(earlierOf(p.until, moved), true); err != nil {
			return err
		}
	}
	in, err := p.before.input(now, governor.CauseFinish)
	in.Anchor = p.before.anchorAfter(*run)
	if decided != nil { // What the decision found to have passed: the run itself may have changed the tempo.
		in = decided.Input
	}
	p.idle(in, governor.Span{After: laterOf(p.since, moved), Until: earlierOf(p.until, begun)})
	p.take(in, governor.Span{After: laterOf(p.since, begun), Until: p.until}, OverlapSkipped)
	return err
}

// wait finds what passed up to an instant while nothing ran. The due time that was planned is among it unless it is served.
func (p *passage) wait(until time.Time, served bool) error {
	s := p.before.State
	in, err := p.before.input(laterOf(p.since, p.before.CreatedAt), governor.CauseFinish)
	if err != nil {
		return err
	}
	from := laterOf(p.since, s.RetryAfter.Add(-time.Millisecond)) // What the target asked for has moved the due times before it.
	if s.Due.Source == governor.SourceManual {
		p.idle(in, governor.Span{After: from, Until: until})
		return nil
	}
	due := s.Due.Slot
	held := earlierOf(earlierOf(until, p.resumed()), due.Add(-time.Millisecond))
	p.take(in, governor.Span{After: from, Until: held}, PauseSkipped)
	if due.After(until) {
		return nil
	}
	if due.After(p.since) && !served {
		p.found = append(p.found, Skip{From: due, To: due, Count: 1, Reason: MisfireSkipped, Source: s.Due.Source})
	}
	in.Anchor, in.Now = due, due
	p.take(in, governor.Span{After: laterOf(p.since, due), Until: until}, MisfireSkipped)
	return nil
}

// idle adds the due times within a span in which nothing ran: those in the pause, and those that nobody got to.
func (p *passage) idle(in governor.Input, within governor.Span) {
	resumed := p.resumed()
	p.take(in, governor.Span{After: within.After, Until: earlierOf(within.Until, resumed)}, PauseSkipped)
	p.take(in, governor.Span{After: laterOf(within.After, resumed), Until: within.Until}, MisfireSkipped)
}

// resumed returns the last instant of the pause.
func (p *passage) resumed() time.Time { return p.before.State.PausedUntil.Add(-time.Millisecond) }

// take adds the due times that follow the anchor of the input and lie within a span.
func (p *passage) take(in governor.Input, within governor.Span, reason SkipReason) {
	if !within.Until.After(within.After) {
		return
	}
	for _, s := range governor.DueTimes(in, within) {
		p.found = append(p.found, Skip{From: s.From, To: s.To, Count: s.Count, Reason: reason, Source: s.Source})
	}
}

// last returns the last due time that was found; zero: none was.
func (p *passage) last() time.Time {
	if len(p.found) == 0 {
		return time.Time{}
	}
	return p.found[len(p.found)-1].To
}

// merged returns what was found, with what follows each other for one reason as one.
func (p *passage) merged() []Skip {
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
