package governor

import "time"

const (
	// targetLeast is the shortest wait that a target can ask for, because a wait of zero would call
	// it back to back.
	targetLeast = time.Second
	// targetMost is the longest wait that a target can ask for, because one wrong header must not
	// stop an endpoint for longer than a day.
	targetMost = 24 * time.Hour
)

// TargetWait returns a wait that a target asked for, within one second and 24 hours.
func TargetWait(asked time.Duration) time.Duration {
	return min(max(asked, targetLeast), targetMost)
}

// target applies the headers of the last answer: an instant for the next run, or the end of the
// answer's freshness as a floor.
func (p *plan) target() {
	switch next, fresh := p.in.TargetNext, p.in.FreshUntil; {
	case next.After(p.in.LastSlot) && next.Before(p.at):
		if p.queued { // It runs at once anyway.
			return
		}
		p.kind = kindOneShot
		p.moveToTarget(next)
	case next.After(p.in.LastSlot):
		if next.After(p.at) {
			p.moveToTarget(next)
		}
	case fresh.After(p.at):
		p.moveToTarget(fresh)
	}
}

// moveToTarget moves the candidate to an instant of the target.
func (p *plan) moveToTarget(at time.Time) {
	p.source = SourceTarget
	p.move(RuleTarget, at, p.whyTarget(at))
}
