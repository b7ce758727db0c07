package endpoints

import (
	"time"

	"rubato/internal/governor"
)

// Quarantine pauses an endpoint whose stored configuration cannot be used, until somebody mends and resumes it, and says why. Only a
// row that was written past the API can come to this.
func (e *Endpoint) Quarantine(now time.Time, fault error) Recorded {
	s := &e.State
	s.AccountedUntil, e.Unrecorded = e.accountedUntil(), nil // Once it is mended, its schedule tells what passed since.
	s.PausedUntil, s.PauseReason = indefinitely, "quarantined: "+fault.Error()
	s.OneOffs.withdraw()
	s.Due = Due{At: indefinitely, Slot: indefinitely, Attempt: 1, Source: governor.SourcePaused}
	return Recorded{
		At: now, Cause: CauseQuarantine, Due: s.Due, Version: e.Version,
		Decision: governor.Decision{At: s.Due.At, Slot: s.Due.Slot, Source: s.Due.Source, Steps: []governor.Step{
			{Rule: RuleQuarantine, At: s.Due.At, Why: "the stored configuration cannot be used: " + fault.Error()},
		}},
		Input: governor.Input{EndpointID: e.ID, Now: now, Cause: governor.CauseReplan, PausedUntil: s.PausedUntil},
	}
}
