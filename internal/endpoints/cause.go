package endpoints

import (
	"rubato/internal/auditlog"
	"rubato/internal/governor"
)

// Cause says what led to a decision, as the ledger keeps it.
type Cause string

// The causes. A change by somebody is called as its action in the audit log is.
const (
	CauseFinish Cause = Cause(governor.CauseFinish) // a run ended
	CauseReplan Cause = Cause(governor.CauseReplan) // a change that its caller has not named yet; the ledger never keeps it

	CauseRegister      Cause = Cause(auditlog.Register)
	CauseEdit          Cause = Cause(auditlog.Edit)
	CausePause         Cause = Cause(auditlog.Pause)
	CauseResume        Cause = Cause(auditlog.Resume)
	CauseHint          Cause = Cause(auditlog.Hint)
	CauseRunNow        Cause = Cause(auditlog.RunNow)
	CauseResetFailures Cause = Cause(auditlog.ResetFailures)
	CauseArchive       Cause = Cause(auditlog.Archive) // the end of an endpoint, which is no decision and is not kept
	CauseStop          Cause = Cause(auditlog.Stop)    // the target wants no more calls

	CauseQuarantine Cause = "quarantine" // the stored configuration cannot be used; see [Endpoint.Quarantine]
)
