package request

import (
	"time"

	"rubato/internal/egress"
	"rubato/internal/governor"
	"rubato/internal/runs"
)

// followHeaders stores what the headers of a successful answer ask about the next run, as far as
// the endpoint follows them. Rubato-Next wins over Cache-Control. As with Rubato-Stop, only the
// target of the endpoint may ask, not the target of a redirect to another host. A 304 counts,
// because it confirms a successful answer.
func (t *Target) followHeaders(o *runs.Outcome, x Exchange) {
	answer := x.Answer
	if answer.Elsewhere || answer.StatusCode/100 != 2 && !t.unchanged(answer) {
		return
	}
	if t.Spec.FollowNext {
		if at, asked := egress.NextRun(answer.Header, x.At); asked {
			o.TargetNext = after(x.At, at.Sub(x.At))
			return
		}
	}
	if t.Spec.FollowMaxAge {
		if fresh, known := egress.FreshFor(answer.Header); known && fresh > 0 {
			o.FreshUntil = after(x.At, fresh)
		}
	}
}

// after returns the instant after a wait, which is limited to what a target can ask for. It is in
// whole milliseconds, rounded up so that it is never earlier than asked.
func after(at time.Time, wait time.Duration) time.Time {
	return at.Add(governor.TargetWait(wait) + time.Millisecond - 1).UTC().Truncate(time.Millisecond)
}
