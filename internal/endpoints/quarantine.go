package endpoints

import (
	"time"

	"rubato/internal/governor"
)

// Quarantine pauses an endpoint whose stored configuration cannot be used, until somebody edits it, and says why. Only a row that
// was written past the API can come to this.
func (e *Endpoint) Quarantine(fault error) {
	s := &e.State
	s.PausedUntil, s.PauseReason = indefinitely, "quarantined: "+fault.Error()
	s.ManualAt = time.Time{}
	s.Due = Due{At: indefinitely, Slot: indefinitely, Attempt: 1, Source: governor.SourcePaused}
}
