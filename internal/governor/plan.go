package governor

import "time"

// maxDoublings caps the backoff at 32 times the interval: a target that stays down is still tried at a useful pace.
const maxDoublings = 5

// fallbackInterval stands in for an interval that is not positive, which would never move the due time. It is the shortest
// interval that can be registered.
const fallbackInterval = time.Second

// kind is what sort of schedule set the candidate that won. Clamps and waits on top of it do not change it: it decides how
// the candidate is moved when it is overdue or paused.
type kind int

const (
	kindInterval kind = iota
	kindCron
	kindOneShot
)

// plan is a decision in the making: the candidate that each rule may move, and the trace.
type plan struct {
	in     Input
	kind   kind
	every  time.Duration // effective interval of kindInterval, backoff included
	at     time.Time     // the candidate
	missed time.Time     // missed occurrence that the run stands for; zero: none
	grid   time.Time     // the candidate before jitter and before the minimum after the last start; zero: at
	source Source
	steps  []Step
}

// newPlan returns the plan before any rule. Most decisions have at most four steps.
func newPlan(in Input) plan {
	return plan{in: in.bounded(), steps: make([]Step, 0, 4)}
}

// move sets the candidate and adds the step of the rule that moved it. The source stays.
func (p *plan) move(rule Rule, at time.Time, why string) {
	p.at, p.grid = at, time.Time{}
	p.steps = append(p.steps, Step{Rule: rule, At: at, Why: why})
}

// neverRun reports whether there is no grid point to count from.
func (p *plan) neverRun() bool { return p.in.Anchor.IsZero() }

// baseline sets the first candidate.
func (p *plan) baseline() {
	if p.in.Baseline.Cron != nil {
		p.baselineCron()
		return
	}
	p.baselineInterval()
}

// baselineInterval counts the interval from the anchor, doubled for every failure in a row.
func (p *plan) baselineInterval() {
	doublings := min(max(p.in.Failures, 0), maxDoublings)
	p.kind, p.source = kindInterval, SourceBaselineInterval
	p.every = backoff(p.in.Baseline.Interval, doublings)
	p.move(RuleBaselineInterval, p.intervalDue(), p.whyInterval(doublings))
}

// baselineCron takes the first occurrence after the anchor. Backoff never applies: the user named the times.
func (p *plan) baselineCron() {
	p.kind, p.source = kindCron, SourceBaselineCron
	at := p.cronDue()
	p.move(RuleBaselineCron, at, p.whyCron(at))
}

// cronDue returns the first occurrence of a cron that no run stands for.
func (p *plan) cronDue() time.Time { return p.next(p.cronAnchor()) }

// served returns what a cron counts from: the anchor. One that has never run starts with the first occurrence from startAt on, after now or,
// where that is given, after what is on record: then it may have passed.
func (p *plan) cronAnchor() time.Time {
	switch {
	case !p.neverRun():
		return p.in.Anchor
	case p.in.Accounted.IsZero():
		return later(p.in.Now, p.in.StartAt.Add(-1))
	}
	return later(p.in.Accounted, p.in.StartAt.Add(-1))
}

// intervalDue returns when an interval of p.every is due. An endpoint that has never run is due at once.
func (p *plan) intervalDue() time.Time {
	if p.neverRun() {
		return later(p.in.Now, p.in.StartAt)
	}
	return add(p.in.Anchor, p.every)
}

// intervalHint lets a fresh interval hint replace the baseline and its backoff.
func (p *plan) intervalHint() {
	hint := p.in.IntervalHint
	if !p.in.Hinted() {
		return
	}
	p.kind, p.source, p.every = kindInterval, SourceAIInterval, hint.at(p.in.Anchor)
	p.move(RuleAIInterval, p.intervalDue(), p.whyIntervalHint(hint))
}

// outageShare is the part of an outage's age that a hint for it waits: the end of the outage is noticed at most a tenth of its length late.
const outageShare = 10

// at returns the interval that the hint asks for after a run at an instant.
func (h *IntervalHint) at(run time.Time) time.Duration {
	if h.OutageSince.IsZero() {
		return h.Interval
	}
	return max(h.Interval, (run.Sub(bound(h.OutageSince)) / outageShare).Truncate(time.Millisecond))
}

// oneShot lets a fresh one-shot hint that was not served yet win over a later candidate. On a tie the candidate stays.
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

// fresh reports whether a hint still counts. One that expires exactly now does not.
func (p *plan) fresh(expiresAt time.Time) bool { return bound(expiresAt).After(p.in.Now) }

// retryAfter waits for the instant that the target asked for.
func (p *plan) retryAfter() {
	if !p.in.RetryAfter.After(p.at) {
		return
	}
	p.source = SourceRetryAfter
	p.move(RuleRetryAfter, p.in.RetryAfter, p.whyRetryAfter())
}

// overrun lifts a candidate that has passed. After a run that took longer than its interval a whole interval is left, so
// that a slow target is not called back to back; a replan acts at once; a cron follows its catch-up policy.
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

// jitter adds the endpoint's offset for this due time. The run still stands for the due time without it: were the schedule to
// count from where jitter put a run, every interval would be longer by the offset.
func (p *plan) jitter() {
	if p.in.Jitter <= 0 {
		return
	}
	grid := p.at
	shift := offset(p.in.EndpointID, grid, p.in.Jitter)
	p.move(RuleJitter, add(grid, shift), p.whyJitter(shift))
	p.grid = grid
}

// clamp keeps the time between due times within the user's bounds, the maximum last, and out of the past. Then it keeps the minimum
// after the last start.
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

// afterLastStart keeps the minimum after the last start, which may have been late, or another attempt. It wins over the maximum. The run
// still stands for its due time, as under jitter, because a grid would otherwise move by the lateness of every start.
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

// pause holds back a candidate that falls into a pause. A cron resumes on its grid; the others resume at the end of the
// pause, spread by their jitter because many pauses may end together. A pause that is over is not after the candidate,
// because that is not before now by this rule.
//
// A paused cron says so even where its next occurrence lies after the pause anyway: its time is what the pause would make of
// it, and "paused" is what an operator needs to read.
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

// decision returns what the rules left.
func (p *plan) decision() Decision {
	return Decision{At: p.at, Slot: p.slot(), Source: p.source, Steps: p.steps}
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
