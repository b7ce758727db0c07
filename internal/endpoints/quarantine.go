package endpoints

import (
	"time"

	"rubato/internal/governor"
)

// QuarantinePrefix begins the reason of the pause of a quarantined endpoint.
const QuarantinePrefix = "quarantined: "

// Quarantine pauses an endpoint with an unusable stored configuration until a person repairs and
// resumes it, and returns the decision with the fault. Only a write past the API can cause this.
func (e *Endpoint) Quarantine(now time.Time, fault error) Recorded {
	s := &e.State
	s.AccountedUntil, e.Unrecorded = e.accountedUntil(), nil // After the repair, its schedule accounts for the time since.
	s.PausedUntil, s.PauseReason = indefinitely, QuarantinePrefix+fault.Error()
	s.OneOffs.withdraw()
	s.Due = Due{
		At:      indefinitely,
		Slot:    indefinitely,
		Attempt: 1,
		Source:  governor.SourcePaused,
	}
	from := *s
	return Recorded{
		From:    &from,
		At:      now,
		Cause:   CauseQuarantine,
		Due:     s.Due,
		Version: e.Version,
		Decision: governor.Decision{
			At:     s.Due.At,
			Slot:   s.Due.Slot,
			Source: s.Due.Source,
			Steps: []governor.Step{
				{
					Rule: RuleQuarantine,
					At:   s.Due.At,
					Why:  "the stored configuration cannot be used: " + fault.Error(),
				},
			},
		},
		Input: governor.Input{
			EndpointID:  e.ID,
			Now:         now,
			Cause:       governor.CauseReplan,
			PausedUntil: s.PausedUntil,
		},
	}
}
