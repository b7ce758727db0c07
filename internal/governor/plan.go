package governor

import "time"

// maxDoublings caps the backoff at 32 times the interval, so that recovery is noticed in useful
// time.
const maxDoublings = 5

// fallbackInterval replaces an interval that is not positive, which would never advance. It is the
// shortest interval that can be registered.
const fallbackInterval = time.Second

// kind is the schedule that set the candidate. Clamps and Retry-After do not change it, because it
// selects how an overdue or paused candidate moves.
type kind int

const (
	kindInterval kind = iota
	kindCron
	kindOneShot
)

// plan is the state of a decision: the candidate instant and the trace. Each rule may move the
// candidate.
type plan struct {
	in     Input
	kind   kind
	every  time.Duration // interval of kindInterval, with backoff
	at     time.Time     // candidate due time
	missed time.Time     // passed due time that the run stands for; zero: none
	queued bool          // missed is the oldest due time of the queue
	grid   time.Time     // candidate before jitter and minimum; zero: at
	source Source
	steps  []Step
}

// newPlan returns the initial state. Most decisions have at most four steps.
func newPlan(in Input) plan {
	return plan{in: in.bounded(), steps: make([]Step, 0, 4)}
}

// move sets the candidate and adds a step. The source stays.
func (p *plan) move(rule Rule, at time.Time, why string) {
	p.at, p.grid = at, time.Time{}
	p.steps = append(p.steps, Step{
		Rule: rule,
		At:   at,
		Why:  why,
	})
}

// neverRun reports whether the endpoint has never run, so that there is no grid point.
func (p *plan) neverRun() bool { return p.in.Anchor.IsZero() }

// baseline sets the first candidate.
func (p *plan) baseline() {
	if p.in.Baseline.Cron != nil {
		p.baselineCron()
		return
	}
	p.baselineInterval()
}

// baselineInterval adds the interval to the anchor, doubled for every consecutive failure.
func (p *plan) baselineInterval() {
	doublings := min(max(p.in.Failures, 0), maxDoublings)
	p.kind, p.source = kindInterval, SourceBaselineInterval
	p.every = backoff(p.in.Baseline.Interval, doublings)
	p.move(RuleBaselineInterval, p.intervalDue(), p.whyInterval(doublings))
}

// baselineCron takes the first occurrence after the anchor. There is no backoff, because the user
// chose the exact times.
func (p *plan) baselineCron() {
	p.kind, p.source = kindCron, SourceBaselineCron
	at := p.cronDue()
	p.move(RuleBaselineCron, at, p.whyCron(at))
}

// cronDue returns the first occurrence of a cron without a run.
func (p *plan) cronDue() time.Time { return p.next(p.cronAnchor()) }

// cronAnchor returns the instant from which a cron counts: the anchor. A cron that never ran starts
// with the first occurrence from StartAt on. That occurrence is after Accounted if set, and may
// then have passed; otherwise it is after now.
func (p *plan) cronAnchor() time.Time {
	switch {
	case !p.neverRun():
		return p.in.Anchor
	case p.in.Accounted.IsZero():
		return later(p.in.Now, p.in.StartAt.Add(-1))
	}
	return later(p.in.Accounted, p.in.StartAt.Add(-1))
}

// intervalDue returns the due time of interval p.every. An endpoint that never ran is due at once.
func (p *plan) intervalDue() time.Time {
	if p.neverRun() {
		return later(p.in.Now, p.in.StartAt)
	}
	return add(p.in.Anchor, p.every)
}

// changeRate replaces the baseline by the wait for the target's rate of change.
func (p *plan) changeRate() {
	if !p.in.paced() || p.neverRun() {
		return
	}
	p.kind, p.source, p.every = kindInterval, SourceChangeRate, p.in.ChangeRate.Wait
	p.move(RuleChangeRate, p.intervalDue(), p.whyChangeRate(p.in.ChangeRate))
	p.steps[len(p.steps)-1].Price = p.in.ChangeRate.Price
}

// intervalHint replaces the baseline and its backoff by the interval hint in force.
func (p *plan) intervalHint() {
	hint := p.in.IntervalHint
	if !p.in.Hinted() {
		return
	}
	p.kind, p.source, p.every = kindInterval, SourceAIInterval, hint.at(p.in.Anchor)
	p.move(RuleAIInterval, p.intervalDue(), p.whyIntervalHint(hint))
}

// outageShare is the divisor of an outage's age: recovery is noticed at most a tenth of its length
// late.
const outageShare = 10

// at returns the hint's interval after a run at an instant.
func (h *IntervalHint) at(run time.Time) time.Duration {
	if h.OutageSince.IsZero() {
		return h.Interval
	}
	return max(h.Interval, (run.Sub(bound(h.OutageSince)) / outageShare).Truncate(time.Millisecond))
}

// oneShot applies an unused one-shot hint if it is earlier than the candidate.
func (p *plan) oneShot() {
	hint := p.in.OneShot
	if hint == nil || !p.fresh(hint.ExpiresAt) {
		return
	}
	at := bound(hint.At)
	if !at.After(p.in.LastSlot) || !at.Before(p.at) {
		return
	}
	p.kind, p.source = kindOneShot, SourceAIOneShot
	p.move(RuleAIOneShot, at, p.whyOneShot(hint, at))
}

// fresh reports whether a hint is in force. It expires exactly at expiresAt.
func (p *plan) fresh(expiresAt time.Time) bool { return bound(expiresAt).After(p.in.Now) }

// retryAfter delays the candidate to the end of Retry-After.
func (p *plan) retryAfter() {
	if !p.in.RetryAfter.After(p.at) {
		return
	}
	p.source = SourceRetryAfter
	p.move(RuleRetryAfter, p.in.RetryAfter, p.whyRetryAfter())
}

// overrun moves an overdue candidate. After a run that took longer than its interval a whole
// interval is left, so that a slow target is not called back to back. A replan is due at once; a
// cron follows its catch-up policy.
func (p *plan) overrun() {
	if !p.at.Before(p.in.Now) {
		return
	}
	switch {
	case p.kind == kindCron:
		p.catchUp()
	case p.kind == kindInterval && p.in.Cause != CauseReplan:
		p.move(RuleOverrun, add(p.in.Now, p.every), p.whyOverrun())
	default:
		p.move(RuleOverrun, p.in.Now, "overdue: at once")
	}
}

// jitter adds the endpoint's offset. The slot stays the due time without it, because otherwise
// jitter would accumulate and lengthen every interval. A queued run has none, because the end of
// the run before it spreads it already.
func (p *plan) jitter() {
	if p.in.Jitter <= 0 || p.queued {
		return
	}
	grid := p.at
	shift := offset(p.in.EndpointID, grid, p.in.Jitter)
	p.move(RuleJitter, add(grid, shift), p.whyJitter(shift))
	p.grid = grid
}

// clamp limits the time since the anchor to the user's bounds, the maximum last. Then it keeps the
// due time out of the past, and at last the minimum after the last start.
func (p *plan) clamp() {
	if p.neverRun() {
		return
	}
	if lowest := add(p.in.Anchor, p.in.Min); p.in.Min > 0 && p.at.Before(lowest) {
		p.source = SourceClampedMin
		p.move(RuleClampedMin, lowest, "at least "+p.in.Min.String()+" between runs")
	}
	if highest := add(p.in.Anchor, p.in.Max); p.in.Max > 0 && p.at.After(highest) {
		p.source = SourceClampedMax
		p.move(RuleClampedMax, highest, "at most "+p.in.Max.String()+" between runs")
	}
	if p.at.Before(p.in.Now) {
		p.move(RuleNotBeforeNow, p.in.Now, "never before now")
	}
	p.afterLastStart()
}

// afterLastStart keeps the minimum after the last start, which may have been late or a retry. It
// wins over the maximum. The slot stays, as under jitter, because otherwise late starts would move
// the grid.
func (p *plan) afterLastStart() {
	lowest := AfterMinimum(p.at, p.in.LastStart, p.in.Min)
	if !p.at.Before(lowest) {
		return
	}
	slot := p.slot()
	p.source = SourceClampedMin
	p.move(RuleClampedMin, lowest, "at least "+p.in.Min.String()+" after the last start")
	p.grid = slot
}

// circuitOpen delays the candidate until the host may be tried again. It wins over the maximum,
// because an earlier run would only be held back again.
func (p *plan) circuitOpen() {
	if !p.in.OpenUntil.After(p.at) {
		return
	}
	p.source = SourceCircuitOpen
	p.move(RuleCircuitOpen, p.in.OpenUntil, p.whyCircuitOpen())
}

// pause delays a candidate during a pause. A cron resumes on its grid. Other schedules resume at
// the end of the pause with jitter, because many pauses may end together.
//
// A paused cron has the source "paused" even if its next occurrence is after the pause anyway,
// because operators look for that source.
func (p *plan) pause() {
	until := p.in.PausedUntil
	switch {
	case p.at.Before(until):
		due := until
		if p.kind == kindCron && until.Before(Indefinite) {
			due = p.nextFrom(until)
		}
		p.missed = time.Time{}
		p.move(RulePaused, add(due, offset(p.in.EndpointID, due, p.in.Jitter)), p.whyPaused(due))
		p.source, p.grid = SourcePaused, due
	case p.source == SourceBaselineCron && until.After(p.in.Now):
		grid := p.grid
		p.move(RulePaused, p.at, p.whyPaused(p.at))
		p.source, p.grid = SourcePaused, grid
	}
}

// end removes a due time at or after the end of the schedule. A due time before it may start later,
// as under jitter, because the end is one of due times.
func (p *plan) end() {
	if p.in.EndAt.IsZero() || p.slot().Before(p.in.EndAt) {
		return
	}
	p.missed = time.Time{}
	p.source = SourceEnded
	p.move(RuleEnded, Indefinite, p.whyEnded())
}

// decision returns the result of the rules.
func (p *plan) decision() Decision {
	return Decision{
		At:     p.at,
		Slot:   p.slot(),
		Source: p.source,
		Steps:  p.steps,
	}
}

// slot returns the due time that the run stands for.
func (p *plan) slot() time.Time {
	switch {
	case !p.missed.IsZero():
		return p.missed
	case !p.grid.IsZero():
		return p.grid
	default:
		return p.at
	}
}

// backoff returns interval * 2^doublings, at most the longest duration.
func backoff(interval time.Duration, doublings int) time.Duration {
	const longest = time.Duration(1<<63 - 1)
	if interval <= 0 {
		interval = fallbackInterval
	}
	if interval > longest>>doublings {
		return longest
	}
	return interval << doublings
}
