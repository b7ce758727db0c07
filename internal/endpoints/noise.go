package endpoints

import (
	"time"

	"rubato/internal/change"
)

// NoiseAuthor is the author of the one-shot hints of the search for noise.
const NoiseAuthor = "noise"

// lookLife is the lifetime of such a hint. A look that comes later is an ordinary one.
const lookLife = time.Minute

// lookAgain plans a close look for the search for noise, unless another one-shot hint is in force.
// Like every hint it stays within the clamps, so that a minimum interval lengthens the gap.
func (e *Endpoint) lookAgain(now time.Time, run Finished) {
	if !run.LookAgain || e.Spec.Planner != PlannerAct || e.State.OneShotHint != nil || e.PausedAt(now) {
		return
	}
	at := laterOf(run.StartedAt.Add(change.EchoGap).Truncate(time.Millisecond), e.State.LastSlot.Add(time.Millisecond))
	e.State.OneShotHint = &Hint{
		At:        at,
		ExpiresAt: laterOf(now, at).Add(lookLife),
		Reason:    "every answer differs: a look in close succession tells noise from change",
		Author:    NoiseAuthor,
		CreatedAt: now,
	}
}
