package endpoints

import (
	"rubato/internal/auditlog"
	"rubato/internal/governor"
)

// Cause is the reason for a decision, as the ledger stores it.
type Cause string

// The causes. A change by a caller has the name of its action in the audit log.
const (
	// CauseFinish: a run ended.
	CauseFinish Cause = Cause(governor.CauseFinish)
	// CauseReplan is the cause of a change before its caller names it. The ledger never stores it.
	CauseReplan Cause = Cause(governor.CauseReplan)

	CauseRegister      Cause = Cause(auditlog.Register)
	CauseEdit          Cause = Cause(auditlog.Edit)
	CausePause         Cause = Cause(auditlog.Pause)
	CauseResume        Cause = Cause(auditlog.Resume)
	CauseHint          Cause = Cause(auditlog.Hint)
	CauseRunNow        Cause = Cause(auditlog.RunNow)
	CauseResetFailures Cause = Cause(auditlog.ResetFailures)
	// CauseReject and CauseApprove: a user rejected a finding of noise, or took that back.
	CauseReject  Cause = Cause(auditlog.Reject)
	CauseApprove Cause = Cause(auditlog.Approve)
	// CauseArchive marks the end of an endpoint. It is no decision and is not stored.
	CauseArchive Cause = Cause(auditlog.Archive)
	// CauseStop: the target asked for no more calls.
	CauseStop Cause = Cause(auditlog.Stop)

	// CauseDetach: a run was detached from its endpoint; see [Endpoint.Detach].
	CauseDetach Cause = "detach"
	// CauseResult: a detached run ended; see [Endpoint.Result].
	CauseResult Cause = "result"
	// CauseQuarantine: the stored configuration is unusable; see [Endpoint.Quarantine].
	CauseQuarantine Cause = "quarantine"
)
