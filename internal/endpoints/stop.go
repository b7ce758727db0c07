package endpoints

import "time"

// Target is the author of what the target of an endpoint brought about by its answer.
const Target = "target"

// Stop pauses an endpoint until somebody resumes it, because its target wants no more calls. It follows a finish: no run is live.
func (e *Endpoint) Stop(now time.Time, reason string) (*Recorded, error) {
	before := *e
	e.State.PausedUntil, e.State.PauseReason = indefinitely, reason
	e.State.OneOffs.withdraw()
	return e.follow(now, &before, CauseStop, Actor{TenantID: e.TenantID, Name: Target})
}
