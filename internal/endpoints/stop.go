package endpoints

import "time"

// Target is the author of a change that the target's answer caused.
const Target = "target"

// Stop pauses an endpoint until a person resumes it, because its target asked for no more calls. It
// is called after a finish, so no run is live.
func (e *Endpoint) Stop(now time.Time, reason string) (*Recorded, error) {
	before := *e
	e.State.PausedUntil, e.State.PauseReason = indefinitely, reason
	e.State.OneOffs.withdraw()
	return e.replanAfter(now, &before, CauseStop, Actor{TenantID: e.TenantID, Name: Target})
}
